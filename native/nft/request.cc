#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include <array>

#include "nft/batch_writer.h"
#include "nft/dump.h"
#include "nft/packed_entries.h"

namespace fairlead::nft {

namespace request = protocol::request;

namespace {

/** Starts the message NFT_MSG_GET*. */
void Begin(wire::MessageWriter& out, int type, int flags, std::uint8_t family,
           std::uint32_t sequence) {
  out.BeginMessage(MessageType(type), static_cast<std::uint16_t>(NLM_F_REQUEST | flags), sequence);
  PutFamilyHeader(out, family, 0);
}

void PutUnlessEmpty(wire::MessageWriter& out, std::uint16_t attribute, std::string_view name) {
  if (!name.empty()) out.PutString(attribute, name);
}

struct Encoder {
  wire::MessageWriter& out;
  std::uint32_t sequence;

  // Acknowledged, so that its end can be told as that of a dump can.
  void operator()(const request::GenerationGet&) const {
    Begin(out, NFT_MSG_GETGEN, NLM_F_ACK, NFPROTO_UNSPEC, sequence);
  }
  void operator()(const request::TablesDump& dump) const {
    Begin(out, NFT_MSG_GETTABLE, NLM_F_DUMP, dump.family, sequence);
  }
  void operator()(const request::ChainsDump& dump) const {
    Begin(out, NFT_MSG_GETCHAIN, NLM_F_DUMP, dump.family, sequence);
  }
  void operator()(const request::RulesDump& dump) const {
    Begin(out, NFT_MSG_GETRULE, NLM_F_DUMP, dump.family, sequence);
    PutUnlessEmpty(out, NFTA_RULE_TABLE, dump.table);
    PutUnlessEmpty(out, NFTA_RULE_CHAIN, dump.chain);
  }
  void operator()(const request::SetsDump& dump) const {
    Begin(out, NFT_MSG_GETSET, NLM_F_DUMP, dump.family, sequence);
    PutUnlessEmpty(out, NFTA_SET_TABLE, dump.table);
  }
  void operator()(const request::ObjectsDump& dump) const {
    Begin(out, NFT_MSG_GETOBJ, NLM_F_DUMP, dump.family, sequence);
    PutUnlessEmpty(out, NFTA_OBJ_TABLE, dump.table);
  }
  void operator()(const request::FlowtablesDump& dump) const {
    Begin(out, NFT_MSG_GETFLOWTABLE, NLM_F_DUMP, dump.family, sequence);
    PutUnlessEmpty(out, NFTA_FLOWTABLE_TABLE, dump.table);
  }
  void operator()(const request::ElementsDump& dump) const {
    Begin(out, NFT_MSG_GETSETELEM, NLM_F_DUMP, dump.family, sequence);
    out.PutString(NFTA_SET_ELEM_LIST_TABLE, dump.table);
    out.PutString(NFTA_SET_ELEM_LIST_SET, dump.set);
  }
};

using ReadResult = std::expected<Request, protocol::DecodeError>;

struct RequestReader {
  std::uint32_t code;
  ReadResult (*read)(std::span<const std::uint8_t> payload);
};

template <typename R>
ReadResult ReadAs(std::span<const std::uint8_t> payload) {
  const auto read = protocol::Read<R>(payload);
  if (!read) return std::unexpected(read.error());
  return *read;
}

template <>
ReadResult ReadAs<request::ElementsDump>(std::span<const std::uint8_t> payload) {
  const auto read = protocol::Read<request::ElementsDump>(payload);
  if (!read) return std::unexpected(read.error());
  const EntryLayout layout{read->shape, read->key_length, read->data_length};
  if (const auto checked = layout.Check(); !checked) return std::unexpected(checked.error());
  return *read;
}

template <typename... Requests>
constexpr std::array<RequestReader, sizeof...(Requests)> ReadersFor(
    const std::variant<Requests...>*) {
  return {RequestReader{Requests::kCode, &ReadAs<Requests>}...};
}

constexpr auto kReaders = ReadersFor(static_cast<const Request*>(nullptr));

}  // namespace

bool IsRequest(std::uint32_t code) noexcept {
  for (const RequestReader& reader : kReaders) {
    if (reader.code == code) return true;
  }
  return false;
}

ReadResult ReadRequest(std::span<const std::uint8_t> buffer) {
  protocol::RecordReader records(buffer);
  const auto record = records.Next();
  if (!record) return std::unexpected(record.error());
  if (!records.AtEnd()) {
    return std::unexpected(protocol::DecodeError{"request", "buffer", "holds more than one"});
  }
  for (const RequestReader& reader : kReaders) {
    if (reader.code == record->code) return reader.read(record->payload);
  }
  return std::unexpected(protocol::DecodeError{"request", "code", "is not one of the schema"});
}

wire::MessageWriter EncodeRequest(const Request& request, std::uint32_t sequence) {
  wire::MessageWriter out;
  std::visit(Encoder{out, sequence}, request);
  out.EndMessage();
  return out;
}

}  // namespace fairlead::nft

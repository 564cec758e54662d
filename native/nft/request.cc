#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include "nft/batch_writer.h"
#include "nft/dump.h"
#include "nft/packed_entries.h"
#include "protocol/one_of.h"

namespace fairlead::nft {

namespace request = protocol::request;

namespace {

/** Starts the message NFT_MSG_GET*. */
void Begin(wire::MessageWriter& out, int type, int flags, std::uint8_t family,
           std::uint32_t sequence) {
  wire::BeginNfnetlink(out, MessageType(type), flags, family, sequence);
}

void PutUnlessEmpty(wire::MessageWriter& out, std::uint16_t attribute, std::string_view name) {
  if (!name.empty()) out.PutString(attribute, name);
}

struct Encoder {
  wire::MessageWriter& out;
  std::uint32_t sequence;

  // The acknowledgement ends the answer, as NLMSG_DONE ends a dump.
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

protocol::Checked Check(const request::ElementsDump& dump) {
  return EntryLayout{dump.shape, dump.key_length, dump.data_length}.Check();
}
protocol::Checked Check(const auto&) { return {}; }

}  // namespace

std::expected<Request, protocol::BadRecord> ReadRequest(std::span<const std::uint8_t> buffer) {
  return protocol::ReadRequest<Request>(buffer, [](const auto& request) { return Check(request); });
}

wire::MessageWriter EncodeRequest(const Request& request, std::uint32_t sequence) {
  wire::MessageWriter out;
  std::visit(Encoder{out, sequence}, request);
  out.EndMessage();
  return out;
}

}  // namespace fairlead::nft

// Runs requests that read nf_tables, and answers with records.
#ifndef FAIRLEAD_NFT_DUMP_H_
#define FAIRLEAD_NFT_DUMP_H_

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <variant>

#include "nft/element_sorter.h"
#include "protocol/ops.gen.h"
#include "wire/dump_reader.h"

namespace fairlead::nft {

using Request = std::variant<protocol::request::GenerationGet, protocol::request::TablesDump,
                             protocol::request::ChainsDump, protocol::request::RulesDump,
                             protocol::request::SetsDump, protocol::request::ObjectsDump,
                             protocol::request::FlowtablesDump, protocol::request::ElementsDump>;

/** Reads the only request of a buffer, and checks its fields. */
std::expected<Request, protocol::BadRecord> ReadRequest(std::span<const std::uint8_t> buffer);

/** Encodes the request: NFT_MSG_GET*. */
wire::MessageWriter EncodeRequest(const Request& request, std::uint32_t sequence);

/** Decodes the datagrams that answer a request. */
class DumpDecoder {
 public:
  DumpDecoder(const Request& request, std::uint32_t sequence)
      : request_(request),
        elements_(LayoutOf(request)),
        reader_(sequence, [this](const wire::Message& message) { return TakeAnswer(message); }) {}
  DumpDecoder(const DumpDecoder&) = delete;
  DumpDecoder& operator=(const DumpDecoder&) = delete;

  void Take(std::span<const std::uint8_t> datagram) { reader_.Take(datagram); }
  /** Whether the kernel has ended its answer. */
  bool done() const noexcept { return reader_.done(); }
  wire::DumpReader& reader() noexcept { return reader_; }

  /** The records and a `dumped` at the end. The decoder must not be used afterwards. */
  ByteBuffer Finish();

 private:
  wire::Taken TakeAnswer(const wire::Message& message);
  /** Appends the elements of the set as one record. */
  void WriteElements(const protocol::request::ElementsDump& dump);

  static EntryLayout LayoutOf(const Request& request) noexcept;

  Request request_;
  ElementSorter elements_;
  wire::DumpReader reader_;
  protocol::RecordWriter out_;
  /** Low 16 bits of the generation of the last message. */
  std::optional<std::uint16_t> generation_;
  bool interrupted_ = false;
};

/** Sends the request and returns the answers as records. */
std::expected<ByteBuffer, SystemError> RunRequest(wire::Socket& socket, const Request& request);

}  // namespace fairlead::nft

#endif  // FAIRLEAD_NFT_DUMP_H_

// Anything at all as an op buffer or a request: the encoder refuses it, or writes good netlink.
#include <linux/netfilter/nfnetlink.h>

#include <cstdlib>

#include "fuzz.h"
#include "nft/batch.h"
#include "nft/dump.h"
#include "nft/elements.h"
#include "samples.h"
#include "wire/attr_reader.h"
#include "wire/trace.h"

namespace fairlead::test {

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

/** Every message is whole, its attributes too, and there is an origin for each. */
void CheckMessages(std::span<const std::uint8_t> bytes, std::size_t expected) {
  wire::MessageReader messages(bytes);
  std::size_t count = 0;
  while (const auto message = messages.Next()) {
    ++count;
    Require(message->payload.size() >= sizeof(nfgenmsg));
    wire::AttrReader attributes(message->payload.subspan(sizeof(nfgenmsg)));
    while (attributes.Next()) {
    }
    Require(!attributes.malformed());
  }
  Require(!messages.malformed() && count == expected);
}

}  // namespace

std::vector<Bytes> Corpus() {
  std::vector<Bytes> corpus = EveryRequest();
  corpus.push_back(EveryOp());
  corpus.push_back(ManyElements(20));
  return corpus;
}

}  // namespace fairlead::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fairlead;
  const std::span<const std::uint8_t> input(data, size);
  if (const auto batch = nft::EncodeBatch(input, 0xfffffff0)) {
    test::CheckMessages(batch->bytes(), batch->origins().size());
    for (std::uint32_t i = 0; i < batch->origins().size() && i < 4; ++i) {
      nft::ElementAt(batch->Message(i), static_cast<std::uint32_t>(size));
    }
    wire::TraceLines("->", batch->bytes(), sizeof(nfgenmsg));
  }
  if (const auto request = nft::ReadRequest(input)) {
    const auto message = nft::EncodeRequest(*request, 1);
    if (!message.overflowed()) test::CheckMessages(message.bytes(), 1);
  }
  return 0;
}

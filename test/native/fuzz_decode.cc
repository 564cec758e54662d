// Anything at all as netlink: the decoders of every kind of object, of answers and the trace; and
// as a table of iptables-legacy.
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <cstdlib>

#include "fuzz.h"
#include "legacy/table.h"
#include "nft/change_reader.h"
#include "nft/dump.h"
#include "nft/elements.h"
#include "samples.h"
#include "wire/ack_collector.h"
#include "wire/trace.h"

namespace fairlead::test {

namespace {

constexpr std::uint32_t kSequence = 7;

/** What is written must be records that read back, ended by `dumped`. */
void CheckRecords(std::span<const std::uint8_t> bytes) {
  protocol::RecordReader reader(bytes);
  std::uint32_t last = 0;
  while (!reader.AtEnd()) {
    const auto record = reader.Next();
    if (!record) std::abort();
    last = record->code;
  }
  if (last != protocol::reply::Dumped::kCode) std::abort();
}

/** A table without a chain and the jumps to it reads back as one chain less. */
void CheckTable(std::uint8_t family, std::span<const std::uint8_t> entries) {
  const legacy::Hooks hooks = LegacyHooks(family);
  const auto table = legacy::ReadTable(family, hooks, entries);
  if (!table) return;
  const auto removed = legacy::Remove({{{"INPUT", "KUBE-A"}}, {"KUBE-A"}}, *table, hooks, entries);
  if (removed && !legacy::ReadTable(family, removed->hooks, removed->bytes)) std::abort();
}

}  // namespace

// The first byte chooses the request, the rest is the datagram.
std::vector<Bytes> Corpus() {
  const Bytes dump = AsDump(Encoded(EveryOp()), kSequence);
  std::vector<Bytes> corpus;
  for (std::uint8_t chosen = 0; chosen < EveryRequest().size(); ++chosen) {
    Bytes input = {chosen};
    input.insert(input.end(), dump.begin(), dump.end());
    corpus.push_back(std::move(input));
  }
  // Refusals of messages: error, header, words, offset.
  Bytes refusal = FromHex(
      "00"
      "40000000 02000003 07000000 00000000 feffffff"
      "14000000 0a0a0103 07000000 00000000"
      "0b000100 6e6f7420 68657265 08000200 30000000");
  corpus.push_back(std::move(refusal));
  for (const auto family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    Bytes input = LegacyEntries(family);
    input.insert(input.begin(), family);
    corpus.push_back(std::move(input));
  }
  return corpus;
}

}  // namespace fairlead::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fairlead;
  static const std::vector<test::Bytes> requests = test::EveryRequest();
  if (size == 0) return 0;
  const auto request = nft::ReadRequest(requests[data[0] % requests.size()]);
  const std::span<const std::uint8_t> datagram(data + 1, size - 1);
  nft::DumpDecoder decoder(*request, test::kSequence);
  decoder.Take(datagram);
  nft::ChangeReader changes({{2, "t"}});
  changes.Take(datagram, test::kSequence);
  test::CheckRecords(decoder.Finish().bytes());
  wire::AckCollector answers(test::kSequence, 4);
  answers.Take(datagram);
  nft::ElementAt(datagram, 40);
  test::CheckTable(data[0], datagram);
  wire::TraceLines("<-", datagram, sizeof(nfgenmsg));
  return 0;
}

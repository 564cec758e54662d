// Anything at all as a buffer from JavaScript and as what the kernel does then: the way of every
// buffer through all families, with system calls that fail and answers that make no sense.
#include <linux/in.h>
#include <linux/magic.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "acct/acct_family.h"
#include "bpf/bpf_family.h"
#include "bytes/bytes_family.h"
#include "conntrack/conntrack_family.h"
#include "fake_kernel.h"
#include "fuzz.h"
#include "ipset/ipset_family.h"
#include "ipvs/ipvs_family.h"
#include "legacy/legacy_family.h"
#include "nft/nft_family.h"
#include "nftrace/nftrace_family.h"
#include "protocol/ops.gen.h"
#include "protocol/runs.h"
#include "route/route_family.h"
#include "samples.h"

namespace fairlead::test {

namespace {

namespace op = protocol::op;
namespace request = protocol::request;

/** Those of native/binding/socket_wrap.cc. */
protocol::Families AllFamilies() {
  protocol::Families families;
  families.push_back(std::make_unique<nft::NftFamily>(0));
  families.push_back(std::make_unique<conntrack::ConntrackFamily>());
  families.push_back(std::make_unique<ipvs::IpvsFamily>(0));
  families.push_back(std::make_unique<route::RouteFamily>(0));
  families.push_back(std::make_unique<ipset::IpsetFamily>());
  families.push_back(std::make_unique<legacy::LegacyFamily>("/run/xtables.lock"));
  families.push_back(std::make_unique<acct::AcctFamily>());
  families.push_back(std::make_unique<nftrace::NftraceFamily>());
  families.push_back(std::make_unique<bytes::BytesFamily>());
  families.push_back(std::make_unique<bpf::BpfFamily>());
  return families;
}

template <typename... Records>
Bytes Buffer(const Records&... records) {
  protocol::RecordWriter out;
  (out.Append(records), ...);
  return Bytes(out.bytes().begin(), out.bytes().end());
}

/** A buffer with its length before it, and no turns yet. */
Bytes Input(const Bytes& buffer) {
  Bytes input(2);
  const auto length = static_cast<std::uint16_t>(buffer.size());
  std::memcpy(input.data(), &length, sizeof(length));
  input.insert(input.end(), buffer.begin(), buffer.end());
  return input;
}

Bytes Taken(const Bytes& buffer) {
  Bytes input = Input(buffer);
  PutTurn(input, Turn::kInterrupted);
  PutTurn(input, Turn::kAcknowledge);
  return input;
}

Bytes Answered(const Bytes& buffer, const Bytes& answer) {
  Bytes input = Input(buffer);
  PutTurn(input, Turn::kAnswer, answer);
  PutTurn(input, Turn::kAnswer, FromHex("14000000 03000200 00000000 00000000 00000000"));
  return input;
}

/** First the number of the family is asked for. */
Bytes Ipvs(const Bytes& buffer, Turn turn, const Bytes& answer) {
  Bytes input = Input(buffer);
  PutTurn(input, Turn::kAnswer,
          FromHex("1c000000 10000000 00000000 00000000 01020000 06000100 1c000000"));
  PutTurn(input, turn, answer);
  return input;
}

Bytes Legacy(std::uint8_t family, const Bytes& buffer) {
  Bytes input = Input(buffer);
  Bytes info(84);
  const legacy::Hooks hooks = LegacyHooks(family);
  // struct ipt_getinfo: name[32], valid_hooks, hook_entry[5], underflow[5], num_entries, size.
  std::memcpy(info.data() + 32, &hooks.valid, 4);
  std::memcpy(info.data() + 36, hooks.begin.data(), 20);
  std::memcpy(info.data() + 56, hooks.policy.data(), 20);
  PutTurn(input, Turn::kBytes, info);
  PutTurn(input, Turn::kBytes, LegacyEntries(family));
  return input;
}

void AddNft(std::vector<Bytes>& corpus) {
  const Bytes dump = AsDump(Encoded(EveryOp()), 1);
  for (const Bytes& buffer : EveryRequest()) corpus.push_back(Answered(buffer, dump));
  corpus.push_back(Taken(EveryOp()));
}

void AddSingle(std::vector<Bytes>& corpus) {
  const Bytes vip = FromHex("0a60000a");
  corpus.push_back(Ipvs(
      Buffer(op::VirtualServiceAdd{AF_INET, IPPROTO_TCP, vip, 80, "wrr", 1, 600, 24},
             op::DestinationAdd{AF_INET, IPPROTO_TCP, vip, 80, vip, 8080, 2, 5, 9, 2}),
      Turn::kAcknowledge, {}));
  corpus.push_back(Ipvs(
      Buffer(request::VirtualServicesDump{AF_INET}), Turn::kAnswer,
      FromHex("70000000 1c000200 07000000 00000000 01010000 5c000180 06000100 02000000"
              "06000200 06000000 14000300 0a60000a 00000000 00000000 00000000 06000400 00500000"
              "08000600 77727200 0c000700 13000000 ffffffff 08000900 ffffff00"
              "14000c80 0c000100 05000000 00000000 14000000 03000200 07000000 00000000 00000000")));
  corpus.push_back(Taken(Buffer(op::LinkAdd{"vips", "dummy"},
                                op::AddressesAdd{AF_INET, "", 3, 32, vip, 1})));
  corpus.push_back(
      Answered(Buffer(request::AddressesDump{AF_INET, ""}),
               FromHex("30000000 14000200 07000000 00000000 02188000 03000000"
                       "08000100 0a000001 08000200 0a000002 08000800 80020000")));
  const Bytes vlan = FromHex(
      "38000000 10000000 07000000 00000000 00000100 05000000 c1000000 00000000"
      "09000300 76697073 00000000 0c001280 08000100 766c616e");
  corpus.push_back(Answered(Buffer(request::LinkGet{"vips"}), vlan));
  corpus.push_back(Answered(Buffer(request::LinksDump{}), vlan));
  corpus.push_back(Answered(Buffer(request::DeadNeighboursDump{}),
                            FromHex("24000000 1c000200 07000000 00000000 02000000 03000000"
                                    "20000001 08000100 0a000001")));
}

void AddOthers(std::vector<Bytes>& corpus) {
  const Bytes address = FromHex("0a60000a");
  corpus.push_back(
      Answered(Buffer(request::ConntrackDump{AF_INET, IPPROTO_UDP, 0, 0, 2, address, 53}),
               FromHex("94000000 00010200 07000000 00000000 02000000"
                       "34000180 14000180 08000100 0a000001 08000200 0a60000a"
                       "1c000280 05000100 11000000 06000200 13880000 06000300 00350000"
                       "34000280 14000180 08000100 0af40007 08000200 0a000001"
                       "1c000280 05000100 11000000 06000200 14e90000 06000300 13880000"
                       "08000300 0000000a 08000c00 01020304 06001200 00000000")));
  corpus.push_back(Taken(Buffer(request::ConntrackDelete{AF_INET, Bytes(72)})));
  corpus.push_back(Taken(Buffer(op::IpsetDestroy{"KUBE-CLUSTER-IP"}, op::AcctAdd{"drops"},
                                op::AcctDelete{"drops"})));
  // A set: its name and type, its references; then the ports in one.
  corpus.push_back(Answered(
      Buffer(request::IpsetsDump{}),
      FromHex("44000000 07060200 07000000 00000000 00000000 05000100 06000000"
              "08000200 4b554245 0c000300 68617368 3a697000 0c000780 08000940 00000001")));
  corpus.push_back(Answered(
      Buffer(request::IpsetPortsDump{"KUBE"}),
      FromHex("34000000 07060200 07000000 00000000 00000000 20000880"
              "0c000780 06000440 00500000 0c000780 06000440 01bb0000")));
  // A counter: its name, packets and bytes.
  corpus.push_back(Answered(
      Buffer(request::AcctsDump{}),
      FromHex("38000000 01070200 07000000 00000000 00000000 0a000100 64726f70 73000000"
              "0c000200 00000000 00000001 0c000300 00000000 00000040")));
  // What a chain has decided about a traced packet.
  Bytes traced = Input(Buffer(request::NftraceRead{1}));
  PutTurn(traced, Turn::kBytes,
          FromHex("4c000000 110a0000 00000000 00000000 02000000 08000400 00000003"
                  "08000200 6f757400 09000100 706c6179 00000000 0c000500 08000100 00000000"
                  "10000800 4500003c 00000000 00000000"));
  PutTurn(traced, Turn::kOverrun);
  corpus.push_back(traced);
  for (const auto family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    corpus.push_back(Legacy(family, Buffer(request::LegacyTablesDump{family})));
    corpus.push_back(
        Legacy(family, Buffer(op::LegacyJumpsDelete{family, "filter", "INPUT", "KUBE-A"},
                              op::LegacyChainDelete{family, "filter", "KUBE-A"})));
  }
}

/** Each call to the kernel does what it is asked for, as many as there can be. */
Bytes Done(const Bytes& buffer) {
  Bytes input = Input(buffer);
  for (int i = 0; i < 48; ++i) PutTurn(input, Turn::kAcknowledge);
  return input;
}

/** The magic of a file system, then whatever is asked for. */
Bytes Probed(const Bytes& buffer) {
  Bytes input = Input(buffer);
  constexpr std::uint64_t kMagics[] = {BPF_FS_MAGIC, CGROUP2_SUPER_MAGIC};
  for (const std::uint64_t magic : kMagics) {
    Bytes bytes(sizeof(magic));
    std::memcpy(bytes.data(), &magic, sizeof(magic));
    PutTurn(input, Turn::kBytes, bytes);
  }
  for (int i = 0; i < 16; ++i) PutTurn(input, Turn::kAcknowledge);
  return input;
}

void AddBpf(std::vector<Bytes>& corpus) {
  const std::string_view directory = "/sys/fs/bpf/fairlead";
  const std::string_view cgroup = "/sys/fs/cgroup";
  const Bytes keys(2 * 16);
  const Bytes values(2 * 20);
  for (const auto family : {std::uint8_t{AF_INET}, std::uint8_t{AF_INET6}}) {
    const char* map = family == AF_INET ? "endpoints4" : "endpoints6";
    corpus.push_back(Done(Buffer(op::BpfMapsAdd{directory, family, 4, 8},
                                 op::BpfElementsAdd{directory, map, keys, values},
                                 op::BpfElementsDelete{directory, map, keys},
                                 op::BpfLinksAdd{directory, family, cgroup, 1, 1},
                                 op::BpfRemove{directory, family})));
    corpus.push_back(
        Done(Buffer(request::BpfStateGet{directory, family, 4, 8, cgroup, 1, 1})));
    corpus.push_back(Probed(Buffer(request::BpfProbe{directory, family, 4, 8, cgroup, 0, 0})));
    corpus.push_back(Done(Buffer(request::BpfAttachedGet{directory, cgroup})));
    corpus.push_back(Done(Buffer(op::BpfDetach{1, 2})));
    Bytes dumped = Input(Buffer(request::BpfElementsDump{directory, map}));
    PutTurn(dumped, Turn::kAcknowledge);
    PutTurn(dumped, Turn::kBytes, Bytes(3));
    corpus.push_back(dumped);
    corpus.push_back(Done(Buffer(request::BpfElementsCount{directory, map})));
    // The second of two elements does not fit.
    Bytes full = Input(Buffer(op::BpfElementsAdd{directory, map, keys, values}));
    PutTurn(full, Turn::kAcknowledge);
    PutTurn(full, Turn::kOverrun, Bytes(1));
    corpus.push_back(full);
  }
}

}  // namespace

// Two bytes say how long the buffer is; the turns of the kernel follow it (fake_kernel.h).
std::vector<Bytes> Corpus() {
  std::vector<Bytes> corpus;
  AddNft(corpus);
  AddSingle(corpus);
  AddOthers(corpus);
  AddBpf(corpus);
  // Several families in one buffer.
  corpus.push_back(Taken(Buffer(op::LinkDelete{"lo"}, op::TableDelete{2, "t"}, op::AcctAdd{"a"})));
  return corpus;
}

}  // namespace fairlead::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fairlead;
  std::uint16_t length;
  if (size < sizeof(length)) return 0;
  std::memcpy(&length, data, sizeof(length));
  const std::span<const std::uint8_t> rest(data + sizeof(length), size - sizeof(length));
  const std::size_t taken = std::min<std::size_t>(length, rest.size());
  // A copy of exactly this size: a read beyond it is seen.
  const test::Bytes buffer(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(taken));
  const test::FakeKernel kernel(rest.subspan(taken));
  const auto answer = protocol::RunInOrder(test::AllFamilies(), buffer);
  if (!answer) return 0;
  protocol::RecordReader records(answer->bytes());
  if (records.AtEnd()) std::abort();
  while (!records.AtEnd()) {
    if (!records.Next()) std::abort();
  }
  return 0;
}

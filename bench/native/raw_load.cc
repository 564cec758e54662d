// Measures the lower bound for benchmarks: a minimal program sends the elements of the two maps
// that hold a cluster to nf_tables. It works in its own network namespace, makes its own table, and
// deletes that at the end.
//
//   raw_load SERVICES ENDPOINTS_PER_SERVICE [CHANGES [AT_ONCE...]]
//
// Prints {"elements","bytes","encodeUs","sendUs","totalUs"} for the load in one transaction. With
// CHANGES it also prints "replace": {"count","p50Us","p99Us"}, where each transaction replaces one
// endpoint, and "scale", where each gives a Service one endpoint more and so another verdict. With
// AT_ONCE it also prints "atOnceUs": [...], where one transaction replaces that many endpoints.
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "wire/byte_order.h"
#include "wire/message_writer.h"

namespace {

using fairlead::wire::MessageWriter;
using fairlead::wire::StoreBe;
using fairlead::wire::StoreHost;
using Clock = std::chrono::steady_clock;

constexpr const char* kTable = "fairlead-raw";
constexpr const char* kEndpoints = "endpoints";
constexpr const char* kServices = "services";
constexpr std::uint32_t kIpv4AddrType = 7;
constexpr std::uint32_t kProtocolType = 12;
constexpr std::uint32_t kPortType = 13;
constexpr std::uint32_t kMarkType = 19;
constexpr std::uint32_t kFrontendType = (kIpv4AddrType << 6 | kProtocolType) << 6 | kPortType;
constexpr std::uint16_t kServicePort = 80;

double Microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

[[noreturn]] void Die(const char* what, int error) {
  std::fprintf(stderr, "raw_load: %s: %s\n", what, std::strerror(error));
  std::exit(1);
}

/** Messages of one transaction. */
class Batch {
 public:
  Batch() { Marker(NFNL_MSG_BATCH_BEGIN); }

  MessageWriter& Begin(int type, int flags) {
    last_ = out_.BeginMessage(static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | type),
                              static_cast<std::uint16_t>(NLM_F_REQUEST | flags), 1);
    out_.PutFamilyHeader(std::array<std::uint8_t, 4>{NFPROTO_IPV4, NFNETLINK_V0, 0, 0});
    return out_;
  }
  void End() { out_.EndMessage(); }

  std::span<const std::uint8_t> Finish() {
    out_.AddFlags(last_, NLM_F_ACK);
    Marker(NFNL_MSG_BATCH_END);
    return out_.bytes();
  }

  MessageWriter& out() { return out_; }

 private:
  void Marker(std::uint16_t type) {
    out_.BeginMessage(type, NLM_F_REQUEST, 0);
    out_.PutFamilyHeader(std::array<std::uint8_t, 4>{0, NFNETLINK_V0, 0, NFNL_SUBSYS_NFTABLES});
    out_.EndMessage();
  }

  MessageWriter out_;
  std::size_t last_ = 0;
};

class Netfilter {
 public:
  Netfilter() : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER)) {
    if (fd_ < 0) Die("socket", errno);
    const int on = 1;
    ::setsockopt(fd_, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
  }

  /** Sends a transaction and reads its answer: one message, without an error. */
  void Commit(std::span<const std::uint8_t> batch) {
    if (batch.size() > send_buffer_) {
      send_buffer_ = batch.size() + 4096;
      const int size = static_cast<int>(send_buffer_);
      if (::setsockopt(fd_, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0) {
        Die("SO_SNDBUFFORCE", errno);
      }
    }
    if (::send(fd_, batch.data(), batch.size(), 0) < 0) Die("send", errno);
    std::array<std::uint8_t, 4096> answer;
    if (::recv(fd_, answer.data(), answer.size(), MSG_DONTWAIT) < 20) Die("recv", errno);
    std::int32_t error;
    std::memcpy(&error, answer.data() + NLMSG_HDRLEN, sizeof(error));
    if (error != 0) Die("transaction", -error);
  }

 private:
  int fd_;
  std::size_t send_buffer_ = 0;
};

void AddChain(Batch& batch, const char* name, int hook) {
  MessageWriter& out = batch.Begin(NFT_MSG_NEWCHAIN, NLM_F_CREATE);
  out.PutString(NFTA_CHAIN_TABLE, kTable);
  out.PutString(NFTA_CHAIN_NAME, name);
  if (hook >= 0) {
    const auto nest = out.BeginNest(NFTA_CHAIN_HOOK);
    out.PutU32Be(NFTA_HOOK_HOOKNUM, static_cast<std::uint32_t>(hook));
    out.PutU32Be(NFTA_HOOK_PRIORITY, static_cast<std::uint32_t>(-100));
    out.EndNest(nest);
    out.PutString(NFTA_CHAIN_TYPE, "nat");
  }
  batch.End();
}

void AddMap(Batch& batch, const char* name, std::uint32_t id, std::uint32_t key_type,
            std::uint32_t key_bytes, std::uint32_t data_type, std::uint32_t data_bytes) {
  MessageWriter& out = batch.Begin(NFT_MSG_NEWSET, NLM_F_CREATE);
  out.PutString(NFTA_SET_TABLE, kTable);
  out.PutString(NFTA_SET_NAME, name);
  out.PutU32Be(NFTA_SET_FLAGS, NFT_SET_MAP);
  out.PutU32Be(NFTA_SET_KEY_TYPE, key_type);
  out.PutU32Be(NFTA_SET_KEY_LEN, key_bytes);
  out.PutU32Be(NFTA_SET_DATA_TYPE, data_type);
  if (data_bytes > 0) out.PutU32Be(NFTA_SET_DATA_LEN, data_bytes);
  out.PutU32Be(NFTA_SET_ID, id);
  batch.End();
}

/** One expression; `put` writes its attributes. */
template <typename Put>
void AddExpression(MessageWriter& out, const char* name, Put put) {
  const auto element = out.BeginNest(NFTA_LIST_ELEM);
  out.PutString(NFTA_EXPR_NAME, name);
  const auto data = out.BeginNest(NFTA_EXPR_DATA);
  put();
  out.EndNest(data);
  out.EndNest(element);
}

/** Loads ip daddr . meta l4proto . th dport into registers 1, 9 and 10. */
void LoadFrontend(MessageWriter& out) {
  const auto load = [&out](std::uint32_t reg, std::uint32_t base, std::uint32_t offset,
                           std::uint32_t length) {
    AddExpression(out, "payload", [&] {
      out.PutU32Be(NFTA_PAYLOAD_DREG, reg);
      out.PutU32Be(NFTA_PAYLOAD_BASE, base);
      out.PutU32Be(NFTA_PAYLOAD_OFFSET, offset);
      out.PutU32Be(NFTA_PAYLOAD_LEN, length);
    });
  };
  load(NFT_REG_1, NFT_PAYLOAD_NETWORK_HEADER, 16, 4);
  AddExpression(out, "meta", [&] {
    out.PutU32Be(NFTA_META_KEY, NFT_META_L4PROTO);
    out.PutU32Be(NFTA_META_DREG, NFT_REG32_01);
  });
  load(NFT_REG32_02, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
}

void Lookup(MessageWriter& out, const char* map, std::uint32_t destination) {
  AddExpression(out, "lookup", [&] {
    out.PutString(NFTA_LOOKUP_SET, map);
    out.PutU32Be(NFTA_LOOKUP_SREG, NFT_REG_1);
    out.PutU32Be(NFTA_LOOKUP_DREG, destination);
  });
}

/** A rule in `chain`; `put` writes its expressions. */
template <typename Put>
void AddRule(Batch& batch, const char* chain, Put put) {
  MessageWriter& out = batch.Begin(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
  out.PutString(NFTA_RULE_TABLE, kTable);
  out.PutString(NFTA_RULE_CHAIN, chain);
  const auto list = out.BeginNest(NFTA_RULE_EXPRESSIONS);
  put(out);
  out.EndNest(list);
  batch.End();
}

/** The chain that picks one of `endpoints` endpoints of a Service. */
void AddPickChain(Batch& batch, const char* pick, std::uint32_t endpoints) {
  AddChain(batch, pick, -1);
  AddRule(batch, pick, [endpoints](MessageWriter& out) {
    LoadFrontend(out);
    AddExpression(out, "numgen", [&] {
      out.PutU32Be(NFTA_NG_DREG, NFT_REG32_03);
      out.PutU32Be(NFTA_NG_MODULUS, endpoints);
      out.PutU32Be(NFTA_NG_TYPE, NFT_NG_RANDOM);
      out.PutU32Be(NFTA_NG_OFFSET, 0);
    });
    Lookup(out, kEndpoints, NFT_REG_1);
    AddExpression(out, "nat", [&] {
      out.PutU32Be(NFTA_NAT_TYPE, NFT_NAT_DNAT);
      out.PutU32Be(NFTA_NAT_FAMILY, NFPROTO_IPV4);
      out.PutU32Be(NFTA_NAT_REG_ADDR_MIN, NFT_REG_1);
      out.PutU32Be(NFTA_NAT_REG_PROTO_MIN, NFT_REG32_01);
    });
  });
}

/** The table, its maps and chains. Both hooks look up the Service; `pick` picks an endpoint. */
void AddSkeleton(Batch& batch, const char* pick, std::uint32_t endpoints) {
  batch.Begin(NFT_MSG_NEWTABLE, NLM_F_CREATE).PutString(NFTA_TABLE_NAME, kTable);
  batch.End();
  AddMap(batch, kEndpoints, 1, kFrontendType << 6 | kMarkType, 16, kIpv4AddrType << 6 | kPortType,
         8);
  AddMap(batch, kServices, 2, kFrontendType, 12, NFT_DATA_VERDICT, 0);
  AddPickChain(batch, pick, endpoints);
  for (const auto& [name, hook] :
       {std::pair{"prerouting", NF_INET_PRE_ROUTING}, {"output", NF_INET_LOCAL_OUT}}) {
    AddChain(batch, name, hook);
    AddRule(batch, name, [](MessageWriter& out) {
      LoadFrontend(out);
      Lookup(out, kServices, NFT_REG_VERDICT);
    });
  }
}

void PutFrontend(std::uint8_t* key, std::uint32_t service) {
  StoreBe(key, 0x0a600000 + service);
  key[4] = 6;
  StoreBe(key + 8, kServicePort);
}

void PutEndpoint(std::uint8_t* data, std::uint32_t number) {
  StoreBe(data, 0x0a800000 + number);
  StoreBe(data + 4, std::uint16_t{8080});
}

/** Adds or deletes copies of `element`, many to a message. `fill` writes the bytes that differ. */
template <typename Fill>
void AddElements(Batch& batch, int type, const char* set, std::span<const std::uint8_t> element,
                 std::uint32_t count, Fill fill) {
  const std::uint32_t per_message =
      static_cast<std::uint32_t>((MessageWriter::kAttributeBytesMax - NLA_HDRLEN) / element.size());
  for (std::uint32_t first = 0; first < count; first += per_message) {
    const std::uint32_t now = std::min(per_message, count - first);
    MessageWriter& out = batch.Begin(type, type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0);
    out.PutString(NFTA_SET_ELEM_LIST_TABLE, kTable);
    out.PutString(NFTA_SET_ELEM_LIST_SET, set);
    const auto list = out.BeginNest(NFTA_SET_ELEM_LIST_ELEMENTS);
    std::uint8_t* to = out.Extend(now * element.size());
    for (std::uint32_t i = first; i < first + now; ++i, to += element.size()) {
      std::memcpy(to, element.data(), element.size());
      fill(to, i);
    }
    out.EndNest(list);
    batch.End();
  }
}

using Element = std::vector<std::uint8_t>;

/** An element with zeroes for key and value. With `chain` it has a verdict instead of a value. */
Element ElementTemplate(std::size_t key_bytes, std::size_t data_bytes, const char* chain) {
  const std::array<std::uint8_t, 64> zeroes{};
  MessageWriter out;
  const auto element = out.BeginNest(NFTA_LIST_ELEM);
  const auto key = out.BeginNest(NFTA_SET_ELEM_KEY);
  out.PutBytes(NFTA_DATA_VALUE, std::span(zeroes).first(key_bytes));
  out.EndNest(key);
  if (data_bytes > 0 || chain != nullptr) {
    const auto data = out.BeginNest(NFTA_SET_ELEM_DATA);
    if (chain == nullptr) {
      out.PutBytes(NFTA_DATA_VALUE, std::span(zeroes).first(data_bytes));
    } else {
      const auto verdict = out.BeginNest(NFTA_DATA_VERDICT);
      out.PutU32Be(NFTA_VERDICT_CODE, static_cast<std::uint32_t>(NFT_GOTO));
      out.PutString(NFTA_VERDICT_CHAIN, chain);
      out.EndNest(verdict);
    }
    out.EndNest(data);
  }
  out.EndNest(element);
  return Element(out.bytes().begin(), out.bytes().end());
}

// Offsets of key and value in such an element.
constexpr std::size_t kKeyAt = 3 * NLA_HDRLEN;
constexpr std::size_t kEndpointValueAt = kKeyAt + 16 + 2 * NLA_HDRLEN;

struct Cluster {
  std::uint32_t services;
  std::uint32_t endpoints;
};

void PutEndpointKey(std::uint8_t* element, std::uint32_t service, std::uint32_t index) {
  PutFrontend(element + kKeyAt, service);
  StoreHost(element + kKeyAt + 12, index);
}

void AddCluster(Batch& batch, const Cluster& cluster, const char* pick) {
  AddElements(batch, NFT_MSG_NEWSETELEM, kEndpoints, ElementTemplate(16, 8, nullptr),
              cluster.services * cluster.endpoints,
              [&cluster](std::uint8_t* element, std::uint32_t i) {
                PutEndpointKey(element, i / cluster.endpoints, i % cluster.endpoints);
                PutEndpoint(element + kEndpointValueAt, i);
              });
  AddElements(batch, NFT_MSG_NEWSETELEM, kServices, ElementTemplate(12, 0, pick), cluster.services,
              [](std::uint8_t* element, std::uint32_t i) { PutFrontend(element + kKeyAt, i); });
}

/** Gives `count` endpoints other addresses: deletes their elements and adds the new ones. */
double Replace(Netfilter& netfilter, const Cluster& cluster, std::uint32_t round,
               std::uint32_t count) {
  const auto key = [&cluster, round](std::uint8_t* element, std::uint32_t i) {
    PutEndpointKey(element, (round + i) * 7919 % cluster.services, (round + i) % cluster.endpoints);
  };
  const auto start = Clock::now();
  Batch batch;
  AddElements(batch, NFT_MSG_DELSETELEM, kEndpoints, ElementTemplate(16, 0, nullptr), count, key);
  AddElements(batch, NFT_MSG_NEWSETELEM, kEndpoints, ElementTemplate(16, 8, nullptr), count,
              [&key, round](std::uint8_t* element, std::uint32_t i) {
                key(element, i);
                PutEndpoint(element + kEndpointValueAt, 0x400000 + round + i);
              });
  netfilter.Commit(batch.Finish());
  return Microseconds(Clock::now() - start);
}

/** Adds one endpoint to a Service: its element, and a verdict that picks among all of them. */
double Scale(Netfilter& netfilter, const Cluster& cluster, std::uint32_t service,
             const char* pick) {
  const auto frontend = [service](std::uint8_t* element, std::uint32_t) {
    PutFrontend(element + kKeyAt, service);
  };
  const auto start = Clock::now();
  Batch batch;
  AddElements(batch, NFT_MSG_DELSETELEM, kServices, ElementTemplate(12, 0, nullptr), 1, frontend);
  AddElements(batch, NFT_MSG_NEWSETELEM, kEndpoints, ElementTemplate(16, 8, nullptr), 1,
              [&cluster, service](std::uint8_t* element, std::uint32_t) {
                PutEndpointKey(element, service, cluster.endpoints);
                PutEndpoint(element + kEndpointValueAt, 0x600000 + service);
              });
  AddElements(batch, NFT_MSG_NEWSETELEM, kServices, ElementTemplate(12, 0, pick), 1, frontend);
  netfilter.Commit(batch.Finish());
  return Microseconds(Clock::now() - start);
}

template <typename Change>
void PrintChanges(const char* what, std::uint32_t rounds, Change change) {
  std::vector<double> times;
  for (std::uint32_t i = 0; i < rounds; ++i) times.push_back(change(i));
  std::sort(times.begin(), times.end());
  const auto quantile = [&times](double q) {
    return times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1))];
  };
  std::printf(",\"%s\":{\"count\":%u,\"p50Us\":%.1f,\"p99Us\":%.1f}", what, rounds, quantile(0.5),
              quantile(0.99));
}

/** The most Services to scale. In large clusters each takes long. */
constexpr std::uint32_t kScalingsMax = 100;

void PrintScalings(Netfilter& netfilter, const Cluster& cluster, std::uint32_t rounds) {
  const std::string pick = "pick-" + std::to_string(cluster.endpoints + 1);
  Batch batch;
  AddPickChain(batch, pick.c_str(), cluster.endpoints + 1);
  netfilter.Commit(batch.Finish());
  PrintChanges("scale", std::min({rounds, cluster.services, kScalingsMax}), [&](std::uint32_t i) {
    return Scale(netfilter, cluster, i, pick.c_str());
  });
}

std::uint32_t Number(const char* text) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value > 4'000'000) Die(text, EINVAL);
  return static_cast<std::uint32_t>(value);
}

void PrintAtOnce(Netfilter& netfilter, const Cluster& cluster, std::span<char*> counts) {
  const char* separator = ",\"atOnceUs\":[";
  for (const char* text : counts) {
    const std::uint32_t count = Number(text);
    if (count == 0 || count > cluster.services) Die(text, EINVAL);
    std::printf("%s%.0f", separator, Replace(netfilter, cluster, 0, count));
    separator = ",";
  }
  std::printf("]");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: raw_load SERVICES ENDPOINTS_PER_SERVICE [CHANGES [AT_ONCE...]]\n");
    return 2;
  }
  const Cluster cluster{Number(argv[1]), Number(argv[2])};
  const std::uint32_t changes = argc > 3 ? Number(argv[3]) : 0;
  const std::uint64_t elements = std::uint64_t{cluster.services} * (cluster.endpoints + 1);
  if (cluster.services == 0 || cluster.endpoints == 0 || elements > 4'000'000) Die("size", EINVAL);
  const std::string pick = "pick-" + std::to_string(cluster.endpoints);

  Netfilter netfilter;
  const auto start = Clock::now();
  Batch batch;
  batch.out().Reserve(elements * 56 + 65536);
  AddSkeleton(batch, pick.c_str(), cluster.endpoints);
  AddCluster(batch, cluster, pick.c_str());
  const auto bytes = batch.Finish();
  const auto encoded = Clock::now();
  netfilter.Commit(bytes);
  const auto sent = Clock::now();

  std::printf("{\"elements\":%llu,\"bytes\":%zu,\"encodeUs\":%.0f,\"sendUs\":%.0f,\"totalUs\":%.0f",
              static_cast<unsigned long long>(elements), bytes.size(),
              Microseconds(encoded - start), Microseconds(sent - encoded),
              Microseconds(sent - start));
  if (changes > 0) {
    PrintChanges("replace", changes,
                 [&](std::uint32_t i) { return Replace(netfilter, cluster, i, 1); });
    PrintScalings(netfilter, cluster, changes);
  }
  if (argc > 4) PrintAtOnce(netfilter, cluster, {argv + 4, argv + argc});
  std::printf("}\n");

  Batch removal;
  removal.Begin(NFT_MSG_DELTABLE, 0).PutString(NFTA_TABLE_NAME, kTable);
  removal.End();
  netfilter.Commit(removal.Finish());
  return 0;
}

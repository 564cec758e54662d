#include "samples.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>

#include "nft/batch.h"
#include "nft/packed_entries.h"
#include "wire/attr_reader.h"
#include "wire/byte_order.h"

namespace fairlead::test {

namespace expression = protocol::expression;
namespace op = protocol::op;
namespace request = protocol::request;
namespace shape = protocol::element_shape;
using protocol::kNoRegister;
using protocol::RecordWriter;

namespace {

Bytes Copy(std::span<const std::uint8_t> bytes) { return Bytes(bytes.begin(), bytes.end()); }

template <typename Record>
Bytes Buffer(const Record& record) {
  RecordWriter out;
  out.Append(record);
  return Copy(out.bytes());
}

Bytes Packed(const nft::EntryLayout& layout, const std::vector<nft::Entry>& entries) {
  ByteBuffer out;
  for (const nft::Entry& entry : entries) nft::WriteEntry(layout, entry, out);
  return Copy(out.bytes());
}

void WriteTables(RecordWriter& out) {
  out.Append(op::TableAdd{2, "t", "a comment"});
  out.Append(op::ChainAdd{2, "t", "c", "another"});
  out.Append(op::BaseChainAdd{2, "t", "b", "nat", 0, -100, 1, ""});
}

void WriteRules(RecordWriter& out) {
  const Bytes all = EveryExpression();
  out.Append(op::RuleAdd{2, "t", "c", all, "why"});
  out.Append(op::RuleDelete{2, "t", "c", 8, 0});
  out.Append(op::XtRuleAdd{2, "t", "c", 9, 6, 1, all});
  out.Append(op::XtRuleInsert{2, "t", "c", 0, 0, 0, {}});
  out.Append(op::ObjectDelete{2, "t", 1, "o"});
  out.Append(op::ObjectDelete{2, "t", 0, "f"});
  out.Append(op::FlowtableAdd{1, "t", "f", -5, 2, "eth0 veth1"});
  out.Append(op::FlowtableAdd{1, "t", "f", 0, 0, ""});
  out.Append(op::FlowtableDevicesDelete{1, "t", "f", 0, "eth0"});
}

void WriteSets(RecordWriter& out) {
  op::SetAdd set;
  set.family = 2;
  set.table = "t";
  set.set = "s";
  set.flags = NFT_SET_MAP | NFT_SET_TIMEOUT;
  set.key_type = 7;
  set.key_length = 4;
  set.data_type = 7;
  set.data_length = 4;
  set.timeout_ms = 60000;
  set.size = 1000;
  set.comment = "a set";
  out.Append(set);
}

template <typename Op>
void WriteElements(std::uint32_t parts, RecordWriter& out) {
  const Bytes low = FromHex("0a000001");
  const Bytes high = FromHex("0a0000ff");
  const nft::EntryLayout layout{parts, 4, 4};
  std::vector<nft::Entry> entries(3);
  for (nft::Entry& entry : entries) {
    entry.key = low;
    entry.data = high;
    entry.verdict = {NFT_GOTO, "chain"};
    entry.comment = "ns/name:port";
  }
  entries[1].key = high;
  entries[1].flags = NFT_SET_ELEM_INTERVAL_END;
  entries[2].verdict = {NF_DROP, ""};
  const Bytes packed = Packed(layout, entries);
  out.Append(Op{2, "t", "s", parts, 4, 4, 3, packed});
}

}  // namespace

Bytes EveryExpression() {
  const Bytes word = FromHex("0a000001");
  const Bytes other = FromHex("ffffff00");
  RecordWriter out;
  out.Append(expression::ImmediateVerdict{NFT_JUMP, "chain"});
  out.Append(expression::ImmediateVerdict{NF_ACCEPT, ""});
  out.Append(expression::Cmp{1, NFT_CMP_NEQ, word});
  out.Append(expression::Payload{1, NFT_PAYLOAD_NETWORK_HEADER, 16, 4});
  out.Append(expression::MetaLoad{9, NFT_META_L4PROTO});
  out.Append(expression::MetaSet{1, NFT_META_MARK});
  out.Append(expression::CtLoad{1, NFT_CT_STATE, 0xff});
  out.Append(expression::CtLoad{1, NFT_CT_DST_IP, 1});
  out.Append(expression::Bitwise{1, 2, 4, other, word});
  out.Append(expression::Lookup{"s", 1, kNoRegister, NFT_LOOKUP_F_INV});
  out.Append(expression::Lookup{"s", 1, 0, 0});
  out.Append(expression::Numgen{11, NFT_NG_RANDOM, 30, 5});
  out.Append(expression::Nat{NFT_NAT_DNAT, 2, 1, 1, 9, 9, 3});
  out.Append(expression::Nat{NFT_NAT_SNAT, 10, 1, kNoRegister, kNoRegister, kNoRegister, 0});
  out.Append(expression::Masquerade{16});
  out.Append(expression::Masquerade{0});
  out.Append(expression::Reject{NFT_REJECT_ICMP_UNREACH, 3});
  out.Append(expression::Reject{NFT_REJECT_TCP_RST, 0});
  out.Append(expression::Fib{1, NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR});
  out.Append(expression::Dynset{"s", NFT_DYNSET_OP_UPDATE, 1, 12, 10'800'000});
  out.Append(expression::Dynset{"s", NFT_DYNSET_OP_ADD, 1, kNoRegister, 0});
  out.Append(expression::Counter{});
  out.Append(expression::Connlimit{100, NFT_CONNLIMIT_F_INV});
  out.Append(expression::Connlimit{1, 0});
  out.Append(expression::Limit{50, 1, 50, NFT_LIMIT_PKTS, NFT_LIMIT_F_INV});
  out.Append(expression::FlowOffload{"f"});
  out.Append(expression::RtLoad{1, NFT_RT_XFRM});
  out.Append(expression::Byteorder{1, 1, NFT_BYTEORDER_HTON, 8, 8});
  const Bytes info = FromHex("0400000000000000");
  out.Append(expression::Match{"addrtype", 1, info});
  out.Append(expression::Target{"MARK", 2, info});
  return Copy(out.bytes());
}

Bytes EveryOp() {
  RecordWriter out;
  WriteTables(out);
  WriteSets(out);
  WriteElements<op::ElementsAdd>(0, out);
  WriteElements<op::ElementsAdd>(shape::kFlags | shape::kData, out);
  WriteElements<op::ElementsAdd>(shape::kVerdict, out);
  WriteElements<op::ElementsAdd>(shape::kVerdict | shape::kComment, out);
  WriteElements<op::ElementsDelete>(shape::kFlags, out);
  WriteRules(out);
  out.Append(op::SetFlush{2, "t", "s"});
  out.Append(op::SetDelete{2, "t", "s"});
  out.Append(op::ChainFlush{2, "t", "c"});
  out.Append(op::ChainDelete{2, "t", "c"});
  out.Append(op::TableDelete{2, "t"});
  return Copy(out.bytes());
}

std::vector<Bytes> EveryRequest() {
  const std::uint32_t every_part = shape::kFlags | shape::kData;
  return {
      Buffer(request::GenerationGet{}),
      Buffer(request::TablesDump{2}),
      Buffer(request::ChainsDump{2, "t"}),
      Buffer(request::RulesDump{2, "t", "c"}),
      Buffer(request::SetsDump{2, "t"}),
      Buffer(request::ObjectsDump{2, "t"}),
      Buffer(request::FlowtablesDump{2, "t"}),
      Buffer(request::ElementsDump{2, "t", "s", every_part, 4, 4}),
      Buffer(request::ElementsDump{2, "t", "s", shape::kVerdict | shape::kComment, 4, 0}),
  };
}

Bytes LegacyEntries(std::uint8_t family) {
  Bytes entries;
  const auto entry = [&entries, family](const char* error_name, std::int32_t verdict) {
    // The parts of an entry: see native/legacy/table.cc.
    const std::size_t target = family == AF_INET6 ? sizeof(ip6t_entry) : sizeof(ipt_entry);
    const bool is_error = error_name != nullptr;
    const std::size_t next =
        target + (is_error ? sizeof(xt_error_target) : sizeof(xt_standard_target));
    const std::size_t offsets = family == AF_INET6 ? offsetof(ip6t_entry, target_offset)
                                                   : offsetof(ipt_entry, target_offset);
    const std::size_t start = entries.size();
    entries.resize(start + next);
    std::uint8_t* at = entries.data() + start;
    at[offsets] = static_cast<std::uint8_t>(target);
    at[offsets + 2] = static_cast<std::uint8_t>(next);
    char* text = reinterpret_cast<char*>(at) + target;
    if (is_error) {
      std::strcpy(text + 2, XT_ERROR_TARGET);
      std::strcpy(text + sizeof(xt_entry_target), error_name);
    } else {
      std::memcpy(text + offsetof(xt_standard_target, verdict), &verdict, sizeof(verdict));
    }
  };
  const auto end_of_header =
      2 * LegacyHooks(family).policy[NF_INET_LOCAL_IN] +
      static_cast<std::uint32_t>((family == AF_INET6 ? sizeof(ip6t_entry) : sizeof(ipt_entry)) +
                                 sizeof(xt_error_target));
  entry(nullptr, static_cast<std::int32_t>(end_of_header));
  entry(nullptr, -NF_ACCEPT - 1);
  for (const char* name : {"KUBE-A", "KUBE-B"}) {
    entry(name, 0);
    if (std::strcmp(name, "KUBE-A") == 0) entry(nullptr, -NF_DROP - 1);
    entry(nullptr, XT_RETURN);
  }
  entry("ERROR", 0);
  return entries;
}

legacy::Hooks LegacyHooks(std::uint8_t family) {
  legacy::Hooks hooks;
  hooks.valid = 1U << NF_INET_LOCAL_IN;
  hooks.policy[NF_INET_LOCAL_IN] =
      static_cast<std::uint32_t>((family == AF_INET6 ? sizeof(ip6t_entry) : sizeof(ipt_entry)) +
                                 sizeof(xt_standard_target));
  return hooks;
}

Bytes ManyElements(std::uint32_t count) {
  Bytes entries(std::size_t{count} * 8);
  for (std::uint32_t i = 0; i < count; ++i) wire::StoreBe(entries.data() + std::size_t{i} * 8, i);
  return Buffer(op::ElementsAdd{2, "t", "s", shape::kData, 4, 4, count, entries});
}

Bytes Encoded(const Bytes& ops) {
  const auto batch = nft::EncodeBatch(ops, 1);
  return batch ? Copy(batch->bytes()) : Bytes();
}

Bytes AsDump(const Bytes& batch, std::uint32_t sequence) {
  wire::MessageWriter out;
  wire::MessageReader messages(batch);
  while (const auto message = messages.Next()) {
    if (message->type >> 8 != NFNL_SUBSYS_NFTABLES) continue;
    out.BeginMessage(message->type, NLM_F_MULTI, sequence);
    out.PutFamilyHeader(message->payload);
    out.EndMessage();
  }
  out.BeginMessage(NLMSG_DONE, NLM_F_MULTI, sequence);
  out.PutFamilyHeader(FromHex("00000000"));
  out.EndMessage();
  return Copy(out.bytes());
}

}  // namespace fairlead::test

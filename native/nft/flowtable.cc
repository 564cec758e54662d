#include <linux/if.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include <algorithm>
#include <string>

#include "nft/objects.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

// NFT_MSG_NEWFLOWTABLE, NFT_MSG_DELFLOWTABLE
//   NFTA_FLOWTABLE_TABLE  string
//   NFTA_FLOWTABLE_NAME   string
//   NFTA_FLOWTABLE_HOOK
//     NFTA_FLOWTABLE_HOOK_NUM       be32  NF_NETDEV_INGRESS
//     NFTA_FLOWTABLE_HOOK_PRIORITY  be32, signed
//     NFTA_FLOWTABLE_HOOK_DEVS
//       NFTA_DEVICE_NAME              string, for each device
//   NFTA_FLOWTABLE_FLAGS  be32
//   NFTA_FLOWTABLE_USE    be32  (dumps)

namespace {

constexpr char kBetweenDevices = ' ';

protocol::Checked PutDevices(const char* record, std::string_view devices,
                             wire::MessageWriter& out) {
  const auto list = out.BeginNest(NFTA_FLOWTABLE_HOOK_DEVS);
  while (!devices.empty()) {
    const std::string_view name = devices.substr(0, devices.find(kBetweenDevices));
    if (name.empty() || name.size() >= IFNAMSIZ) {
      return std::unexpected(
          protocol::BadRecord{record, "devices", "has a name that is not of 1 to 15 bytes"});
    }
    out.PutString(NFTA_DEVICE_NAME, name);
    devices.remove_prefix(std::min(devices.size(), name.size() + 1));
  }
  out.EndNest(list);
  return {};
}

template <typename R>
protocol::Checked PutHook(const R& op, wire::MessageWriter& out) {
  out.PutString(NFTA_FLOWTABLE_TABLE, op.table);
  out.PutString(NFTA_FLOWTABLE_NAME, op.flowtable);
  const auto hook = out.BeginNest(NFTA_FLOWTABLE_HOOK);
  out.PutU32Be(NFTA_FLOWTABLE_HOOK_NUM, NF_NETDEV_INGRESS);
  out.PutU32Be(NFTA_FLOWTABLE_HOOK_PRIORITY, static_cast<std::uint32_t>(op.priority));
  const auto put = PutDevices(R::kName, op.devices, out);
  out.EndNest(hook);
  return put;
}

}  // namespace

EncodeResult Encode(const protocol::op::FlowtableAdd& op, BatchWriter& batch) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_NEWFLOWTABLE, NLM_F_CREATE, op.family);
  const auto put = PutHook(op, out);
  if (!put) return std::unexpected(put.error());
  out.PutU32Be(NFTA_FLOWTABLE_FLAGS, op.flags);
  batch.End();
  return {};
}

EncodeResult Encode(const protocol::op::FlowtableDevicesDelete& op, BatchWriter& batch) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_DELFLOWTABLE, 0, op.family);
  const auto put = PutHook(op, out);
  if (!put) return std::unexpected(put.error());
  batch.End();
  return {};
}

wire::Taken DecodeFlowtable(std::uint8_t family, std::string_view only_table,
                            std::span<const std::uint8_t> attributes, protocol::RecordWriter& out) {
  const wire::AttrTable<NFTA_FLOWTABLE_MAX> flowtable(attributes);
  const wire::AttrTable<NFTA_FLOWTABLE_HOOK_MAX> hook(flowtable.Bytes(NFTA_FLOWTABLE_HOOK));
  if (flowtable.malformed() || hook.malformed()) {
    return std::unexpected("flowtable has a malformed attribute");
  }
  protocol::reply::Flowtable reply;
  reply.family = family;
  reply.table = flowtable.String(NFTA_FLOWTABLE_TABLE);
  if (!only_table.empty() && reply.table != only_table) return {};
  reply.flowtable = flowtable.String(NFTA_FLOWTABLE_NAME);
  reply.priority = static_cast<std::int32_t>(hook.U32Be(NFTA_FLOWTABLE_HOOK_PRIORITY));
  reply.flags = flowtable.U32Be(NFTA_FLOWTABLE_FLAGS);
  reply.use = flowtable.U32Be(NFTA_FLOWTABLE_USE);
  std::string devices;
  wire::AttrReader names(hook.Bytes(NFTA_FLOWTABLE_HOOK_DEVS));
  while (const auto name = names.Next()) {
    if (!devices.empty()) devices += kBetweenDevices;
    devices += wire::ReadString(name->payload);
  }
  if (names.malformed()) return std::unexpected("flowtable has a malformed device");
  reply.devices = devices;
  out.Append(reply);
  return {};
}

}  // namespace fairlead::nft

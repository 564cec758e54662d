#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include <array>
#include <span>

#include "nft/elements.h"
#include "nft/expr/expressions.h"
#include "nft/objects.h"
#include "nft/userdata.h"
#include "wire/attr_reader.h"

namespace fairlead::nft {

// NFT_MSG_NEWSET
//   NFTA_SET_TABLE      string
//   NFTA_SET_NAME       string
//   NFTA_SET_FLAGS      be32
//   NFTA_SET_KEY_TYPE   be32
//   NFTA_SET_KEY_LEN    be32
//   NFTA_SET_DATA_TYPE  be32   maps only
//   NFTA_SET_DATA_LEN   be32   maps only, without verdict maps, whose length the kernel sets
//   NFTA_SET_ID         be32   any number that is unique within the transaction
//   NFTA_SET_TIMEOUT    be64   milliseconds
//   NFTA_SET_DESC
//     NFTA_SET_DESC_SIZE    be32
//   NFTA_SET_POLICY     be32   (dumps) missing = NFT_SET_POL_PERFORMANCE (0)
//   NFTA_SET_GC_INTERVAL  be32 (dumps) milliseconds; missing = 0, the kernel's default
//   NFTA_SET_HANDLE     be64   (dumps)
//   NFTA_SET_USERDATA   comment, and the byte order of keys that are text
//   NFTA_SET_EXPR       a statement that is copied into each element: see expr/expressions.h
//   NFTA_SET_EXPRESSIONS       (dumps) several such statements
//   NFTA_SET_COUNT      be32   (dumps) elements of the set

namespace {

/** NFTA_SET_COUNT of Linux 6.16 and newer. Older headers lack it. */
constexpr std::size_t kSetCount = 20;

/** nft's type of names of devices. */
constexpr std::uint32_t kInterfaceName = 41;

/**
 * NFTNL_UDATA_SET_KEYBYTEORDER with BYTEORDER_HOST_ENDIAN: nft takes keys for big-endian numbers
 * otherwise, and lists names as empty.
 */
constexpr std::array<std::uint8_t, 6> kTextKeys = {0, 4, 1, 0, 0, 0};

void PutSize(std::uint32_t size, wire::MessageWriter& out) {
  if (size == 0) return;
  const auto description = out.BeginNest(NFTA_SET_DESC);
  out.PutU32Be(NFTA_SET_DESC_SIZE, size);
  out.EndNest(description);
}

}  // namespace

EncodeResult Encode(const protocol::op::SetAdd& op, BatchWriter& batch) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_NEWSET, NLM_F_CREATE, op.family);
  out.PutString(NFTA_SET_TABLE, op.table);
  out.PutString(NFTA_SET_NAME, op.set);
  out.PutU32Be(NFTA_SET_FLAGS, op.flags);
  out.PutU32Be(NFTA_SET_KEY_TYPE, op.key_type);
  out.PutU32Be(NFTA_SET_KEY_LEN, op.key_length);
  if ((op.flags & NFT_SET_MAP) != 0) {
    out.PutU32Be(NFTA_SET_DATA_TYPE, op.data_type);
    if (op.data_type != NFT_DATA_VERDICT) out.PutU32Be(NFTA_SET_DATA_LEN, op.data_length);
  }
  out.PutU32Be(NFTA_SET_ID, batch.op() + 1);
  if (op.timeout_ms != 0) out.PutU64Be(NFTA_SET_TIMEOUT, op.timeout_ms);
  PutSize(op.size, out);
  const auto keys = op.key_type == kInterfaceName ? std::span<const std::uint8_t>(kTextKeys)
                                                  : std::span<const std::uint8_t>();
  const auto put = PutComment(out, NFTA_SET_USERDATA, kCommentOfSet, op.comment, keys);
  if (!put) return std::unexpected(put.error());
  const auto stated = expr::EncodeStatement(op.statement, out);
  if (!stated) return std::unexpected(stated.error());
  batch.End();
  return {};
}

EncodeResult Encode(const protocol::op::SetDelete& op, BatchWriter& batch) {
  wire::MessageWriter& out = batch.Begin(NFT_MSG_DELSET, 0, op.family);
  out.PutString(NFTA_SET_TABLE, op.table);
  out.PutString(NFTA_SET_NAME, op.set);
  batch.End();
  return {};
}

wire::Taken DecodeSet(std::uint8_t family, std::span<const std::uint8_t> attributes,
                      protocol::RecordWriter& out) {
  const wire::AttrTable<kSetCount> set(attributes);
  const wire::AttrTable<NFTA_SET_DESC_MAX> description(set.Bytes(NFTA_SET_DESC));
  if (set.malformed() || description.malformed()) {
    return std::unexpected("set has a malformed attribute");
  }
  protocol::reply::Set reply;
  reply.family = family;
  reply.table = set.String(NFTA_SET_TABLE);
  reply.set = set.String(NFTA_SET_NAME);
  reply.handle = set.U64Be(NFTA_SET_HANDLE);
  reply.flags = set.U32Be(NFTA_SET_FLAGS);
  reply.key_type = set.U32Be(NFTA_SET_KEY_TYPE);
  reply.key_length = set.U32Be(NFTA_SET_KEY_LEN);
  reply.data_type = set.U32Be(NFTA_SET_DATA_TYPE);
  const bool has_data_length = reply.data_type != NFT_DATA_VERDICT;
  reply.data_length = has_data_length ? set.U32Be(NFTA_SET_DATA_LEN) : 0;
  reply.timeout_ms = set.U64Be(NFTA_SET_TIMEOUT);
  reply.size = description.U32Be(NFTA_SET_DESC_SIZE);
  protocol::RecordWriter statement;
  if (set.Has(NFTA_SET_EXPRESSIONS)) {
    statement.Append(protocol::expression::Unknown{"several"});
  } else if (set.Has(NFTA_SET_EXPR) &&
             !expr::DecodeStatement(set.Bytes(NFTA_SET_EXPR), statement)) {
    return std::unexpected("set has a malformed statement");
  }
  reply.statement = statement.bytes();
  reply.policy = set.U32Be(NFTA_SET_POLICY);
  reply.gc_interval_ms = set.U32Be(NFTA_SET_GC_INTERVAL);
  reply.count = set.U32Be(kSetCount, 0xffffffff);
  reply.comment = ReadComment(set.Bytes(NFTA_SET_USERDATA), kCommentOfSet);
  out.Append(reply);
  return {};
}

}  // namespace fairlead::nft

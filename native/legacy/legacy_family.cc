#include "legacy/legacy_family.h"

#include <linux/netfilter.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "legacy/lock.h"
#include "legacy/table_socket.h"
#include "protocol/dump_answer.h"
#include "protocol/ops.gen.h"

namespace fairlead::legacy {

namespace {

using protocol::kUnknownIndex;
using protocol::op::LegacyChainDelete;
using protocol::op::LegacyJumpsDelete;
using protocol::request::LegacyTablesDump;
using Failure = std::unexpected<SystemError>;

bool IsFamily(std::uint8_t family) noexcept { return family == AF_INET || family == AF_INET6; }

void WriteTable(std::uint8_t family, const std::string& name, const Table& table,
                protocol::RecordWriter& out) {
  std::size_t rules = 0;
  for (const Chain& chain : table.chains) rules += chain.end - 1 - chain.first_rule;
  out.Append(protocol::reply::LegacyTable{family, name, static_cast<std::uint32_t>(rules)});
  for (const Chain& chain : table.chains) {
    const auto hook = chain.hook < 0 ? kUnknownIndex : static_cast<std::uint32_t>(chain.hook);
    out.Append(protocol::reply::LegacyChain{family, name, chain.name, hook, chain.policy});
    for (std::size_t i = chain.first_rule; i + 1 < chain.end; ++i) {
      const std::size_t to = table.entries[i].jumps_to;
      if (to != kNone) out.Append(protocol::reply::LegacyJump{table.chains[to].name});
    }
  }
}

std::expected<void, SystemError> WriteTables(std::uint8_t family, protocol::RecordWriter& out) {
  const auto names = TableNames(family);
  if (!names) return Failure(names.error());
  if (names->empty()) return {};
  auto socket = TableSocket::Open(family);
  if (!socket) return Failure(socket.error());
  for (const std::string& name : *names) {
    auto read = socket->Read(name);
    if (read) {
      WriteTable(family, name, socket->table(), out);
    } else if (read.error().error != ENOENT) {
      return read;
    }
  }
  return {};
}

std::expected<ByteBuffer, SystemError> Dump(const protocol::Record& record) {
  const auto request = protocol::Read<LegacyTablesDump>(record.payload);
  if (!request) return protocol::RefuseDump(request.error());
  if (!IsFamily(request->family)) {
    return protocol::RefuseDump(
        {LegacyTablesDump::kName, "family", "is neither AF_INET nor AF_INET6"});
  }
  protocol::RecordWriter out;
  const auto written = WriteTables(request->family, out);
  if (!written) return Failure(written.error());
  out.Append(protocol::reply::Dumped{});
  return std::move(out.buffer());
}

/** Consecutive ops for one table. */
struct Group {
  std::uint8_t family = 0;
  std::string table;
  /** Index of the first op. */
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  Removal removal;
};

/** Adds the op to the last group, or to a new one. On failure: what is wrong with the op. */
protocol::Checked Collect(const protocol::Record& record, std::uint32_t index,
                          std::vector<Group>& groups) {
  const auto group = [&](std::uint8_t family, std::string_view table) -> Group& {
    const bool is_same =
        !groups.empty() && groups.back().family == family && groups.back().table == table;
    if (!is_same) groups.push_back({family, std::string(table), index, 0, {}});
    ++groups.back().count;
    return groups.back();
  };
  if (record.code == LegacyJumpsDelete::kCode) {
    const auto op = protocol::Read<LegacyJumpsDelete>(record.payload);
    if (!op) return std::unexpected(op.error());
    group(op->family, op->table).removal.jumps.push_back({op->chain, op->target});
    return {};
  }
  const auto op = protocol::Read<LegacyChainDelete>(record.payload);
  if (!op) return std::unexpected(op.error());
  group(op->family, op->table).removal.chains.push_back(op->chain);
  return {};
}

/** Removes chains and rules from a table. Missing ones are not a failure. */
std::expected<void, SystemError> RemoveFrom(const Group& group) {
  if (!IsFamily(group.family)) {
    return Failure(SystemError{EINVAL, "family is neither AF_INET nor AF_INET6"});
  }
  const auto names = TableNames(group.family);
  if (!names) return Failure(names.error());
  if (std::ranges::find(*names, group.table) == names->end()) return {};
  auto socket = TableSocket::Open(group.family);
  if (!socket) return Failure(socket.error());
  auto read = socket->Read(group.table);
  if (!read) return read;
  const auto left = Remove(group.removal, socket->table(), socket->hooks(), socket->entries());
  if (!left) return Failure(SystemError{EBUSY, "table " + group.table + ": " + left.error()});
  if (left->origins.size() == socket->table().entries.size()) return {};
  return socket->Replace(group.table, *left);
}

void WriteFailure(std::uint32_t op, int error, const std::string& words,
                  protocol::RecordWriter& out) {
  out.Append(protocol::reply::Failed{op, kUnknownIndex, static_cast<std::uint32_t>(error), words});
}

}  // namespace

bool LegacyFamily::Handles(std::uint32_t code) const noexcept {
  return code == LegacyTablesDump::kCode || code == LegacyJumpsDelete::kCode ||
         code == LegacyChainDelete::kCode;
}

std::expected<ByteBuffer, SystemError> LegacyFamily::Run(std::span<const std::uint8_t> buffer,
                                                         std::uint32_t first_op) {
  protocol::RecordReader reader(buffer);
  const auto first = reader.Next();
  if (first && first->code == LegacyTablesDump::kCode) {
    if (!reader.AtEnd()) {
      return protocol::RefuseDump({"request", "buffer", "contains more than one request"});
    }
    return Dump(*first);
  }
  protocol::RecordWriter out;
  std::vector<Group> groups;
  reader = protocol::RecordReader(buffer);
  for (std::uint32_t index = first_op; !reader.AtEnd(); ++index) {
    const auto record = reader.Next();
    const auto collected = record ? Collect(*record, index, groups)
                                  : protocol::Checked(std::unexpected(record.error()));
    if (!collected) WriteFailure(index, EINVAL, Words(collected.error()), out);
  }
  const auto lock = TakeLock(lock_);
  if (!lock) return Failure(lock.error());
  std::uint32_t taken = 0;
  for (const Group& group : groups) {
    const auto removed = RemoveFrom(group);
    if (removed) {
      taken += group.count;
    } else {
      const SystemError& error = removed.error();
      WriteFailure(group.first, error.error, error.Text(), out);
    }
  }
  out.Append(protocol::reply::Attempted{taken});
  return std::move(out.buffer());
}

}  // namespace fairlead::legacy

#include "legacy/legacy_family.h"

#include <fcntl.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "legacy/table.h"
#include "protocol/ops.gen.h"

namespace fairlead::legacy {

namespace {

using protocol::request::LegacyTablesDump;
using Failure = std::unexpected<SystemError>;

// struct ip6t_getinfo and ip6t_get_entries, and the numbers of the options, are those of IPv4.
static_assert(sizeof(ipt_getinfo) == sizeof(ip6t_getinfo));
static_assert(IPT_SO_GET_INFO == IP6T_SO_GET_INFO);
static_assert(IPT_SO_GET_ENTRIES == IP6T_SO_GET_ENTRIES);

/** A table may grow between the question for its size and that for its entries. */
constexpr int kAttemptsMax = 10;

/**
 * The names of the tables that this network namespace has. A table that is asked for comes into
 * being if the kernel can make it (xt_find_table_lock), so only these are.
 */
std::expected<std::vector<std::string>, SystemError> TableNames(std::uint8_t family) {
  // Of the thread, which may be in another network namespace than the process.
  const std::string path = std::string("/proc/thread-self/net/") +
                           (family == AF_INET6 ? "ip6_tables_names" : "ip_tables_names");
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // Without the file the kernel has never had such tables.
  if (!file.valid() && errno == ENOENT) return std::vector<std::string>();
  if (!file.valid()) return Failure(SystemError::Last("open " + path));
  std::vector<std::string> names(1);
  char text[4096];
  for (;;) {
    const ssize_t length = ::read(file.get(), text, sizeof(text));
    if (length < 0) return Failure(SystemError::Last("read " + path));
    if (length == 0) break;
    for (const char letter : std::string_view(text, static_cast<std::size_t>(length))) {
      if (letter == '\n') {
        names.emplace_back();
      } else {
        names.back() += letter;
      }
    }
  }
  std::erase(names, "");
  return names;
}

class TableReader {
 public:
  static std::expected<TableReader, SystemError> Open(std::uint8_t family) {
    FileDescriptor socket(::socket(family, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
    if (!socket.valid()) return Failure(SystemError::Last("socket for iptables"));
    return TableReader(std::move(socket), family);
  }

  /** Writes the records of a table; nothing for one that is gone. */
  std::expected<void, SystemError> Write(const std::string& name, protocol::RecordWriter& out) {
    for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
      ipt_getinfo info{};
      name.copy(info.name, sizeof(info.name) - 1);
      socklen_t length = sizeof(info);
      if (::getsockopt(socket_.get(), level_, IPT_SO_GET_INFO, &info, &length) != 0) {
        return GoneOr("IPT_SO_GET_INFO " + name);
      }
      if (ReadEntriesOf(info)) return WriteRecords(name, info.valid_hooks, out);
      if (errno != EAGAIN) return GoneOr("IPT_SO_GET_ENTRIES " + name);
    }
    return Failure(SystemError{EAGAIN, "IPT_SO_GET_ENTRIES " + name});
  }

 private:
  TableReader(FileDescriptor socket, std::uint8_t family) noexcept
      : socket_(std::move(socket)),
        family_(family),
        level_(family == AF_INET6 ? int{IPPROTO_IPV6} : int{IPPROTO_IP}) {}

  static std::expected<void, SystemError> GoneOr(const std::string& call) {
    if (errno == ENOENT) return {};
    return Failure(SystemError::Last(call));
  }

  bool ReadEntriesOf(const ipt_getinfo& info) {
    ipt_get_entries request{};
    std::memcpy(request.name, info.name, sizeof(request.name));
    request.size = info.size;
    answer_.resize(sizeof(request) + info.size);
    std::memcpy(answer_.data(), &request, sizeof(request));
    auto length = static_cast<socklen_t>(answer_.size());
    return ::getsockopt(socket_.get(), level_, IPT_SO_GET_ENTRIES, answer_.data(), &length) == 0;
  }

  std::expected<void, SystemError> WriteRecords(const std::string& name, unsigned hooks,
                                                protocol::RecordWriter& out) const {
    const auto entries = std::span(answer_).subspan(sizeof(ipt_get_entries));
    const auto built_in = static_cast<std::uint32_t>(std::popcount(hooks));
    const auto contents = ReadEntries(family_, built_in, entries);
    if (!contents) return Failure(SystemError{EPROTO, "table " + name + ": " + contents.error()});
    protocol::reply::LegacyTable{family_, name, contents->rules}.Write(out);
    for (const std::string_view chain : contents->chains) {
      protocol::reply::LegacyChain{family_, name, chain}.Write(out);
    }
    return {};
  }

  FileDescriptor socket_;
  std::uint8_t family_;
  int level_;
  std::vector<std::uint8_t> answer_;
};

std::expected<void, SystemError> WriteTables(std::uint8_t family, protocol::RecordWriter& out) {
  const auto names = TableNames(family);
  if (!names) return Failure(names.error());
  if (names->empty()) return {};
  auto reader = TableReader::Open(family);
  if (!reader) return Failure(reader.error());
  for (const std::string& name : *names) {
    const auto written = reader->Write(name, out);
    if (!written) return written;
  }
  return {};
}

}  // namespace

bool LegacyFamily::Handles(std::uint32_t code) const noexcept {
  return code == LegacyTablesDump::kCode;
}

std::expected<ByteBuffer, SystemError> LegacyFamily::Run(std::span<const std::uint8_t> buffer) {
  protocol::RecordWriter out;
  protocol::reply::Dumped end;
  const auto record = protocol::RecordReader(buffer).Next();
  const auto request =
      record ? LegacyTablesDump::Read(record->payload) : std::unexpected(record.error());
  if (!request || (request->family != AF_INET && request->family != AF_INET6)) {
    end.error = EINVAL;
    end.message = "legacyTablesDump.family is neither AF_INET nor AF_INET6";
    end.Write(out);
    return std::move(out.buffer());
  }
  const auto written = WriteTables(request->family, out);
  if (!written) return Failure(written.error());
  end.Write(out);
  return std::move(out.buffer());
}

}  // namespace fairlead::legacy

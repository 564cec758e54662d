#include "legacy/table_socket.h"

#include <fcntl.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

namespace fairlead::legacy {

namespace {

using Failure = std::unexpected<SystemError>;

// IPv6 has the structures and option numbers of IPv4.
static_assert(sizeof(ipt_getinfo) == sizeof(ip6t_getinfo));
static_assert(offsetof(ipt_replace, entries) == offsetof(ip6t_replace, entries));
static_assert(IPT_SO_GET_INFO == IP6T_SO_GET_INFO);
static_assert(IPT_SO_GET_ENTRIES == IP6T_SO_GET_ENTRIES);
static_assert(IPT_SO_SET_REPLACE == IP6T_SO_SET_REPLACE);
static_assert(IPT_SO_SET_ADD_COUNTERS == IP6T_SO_SET_ADD_COUNTERS);

/** Attempts to read a table, which may change between the requests for its size and its entries. */
constexpr int kAttemptsMax = 10;

template <typename T>
void SetName(T& message, const std::string& name) {
  name.copy(message.name, sizeof(message.name) - 1);
}

}  // namespace

std::expected<std::vector<std::string>, SystemError> TableNames(std::uint8_t family) {
  // The thread may be in another network namespace than the process.
  const std::string path = std::string("/proc/thread-self/net/") +
                           (family == AF_INET6 ? "ip6_tables_names" : "ip_tables_names");
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // Without the file the kernel has no such tables.
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

TableSocket::TableSocket(FileDescriptor socket, std::uint8_t family) noexcept
    : socket_(std::move(socket)),
      family_(family),
      level_(family == AF_INET6 ? int{IPPROTO_IPV6} : int{IPPROTO_IP}) {}

std::expected<TableSocket, SystemError> TableSocket::Open(std::uint8_t family) {
  // Any socket of the family takes these options. A raw one, as in iptables, needs CAP_NET_RAW.
  FileDescriptor socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Failure(SystemError::Last("socket for iptables"));
  return TableSocket(std::move(socket), family);
}

std::span<const std::uint8_t> TableSocket::entries() const noexcept {
  return std::span(answer_).subspan(offsetof(ipt_get_entries, entrytable));
}

std::expected<void, SystemError> TableSocket::Read(const std::string& name) {
  for (int attempt = 0;; ++attempt) {
    ipt_getinfo info{};
    SetName(info, name);
    socklen_t length = sizeof(info);
    if (::getsockopt(socket_.get(), level_, IPT_SO_GET_INFO, &info, &length) != 0) {
      return Failure(SystemError::Last("IPT_SO_GET_INFO " + name));
    }
    hooks_.valid = info.valid_hooks;
    std::copy_n(info.hook_entry, NF_INET_NUMHOOKS, hooks_.begin.begin());
    std::copy_n(info.underflow, NF_INET_NUMHOOKS, hooks_.policy.begin());
    ipt_get_entries request{};
    SetName(request, name);
    request.size = info.size;
    answer_.resize(offsetof(ipt_get_entries, entrytable) + info.size);
    std::memcpy(answer_.data(), &request, offsetof(ipt_get_entries, entrytable));
    length = static_cast<socklen_t>(answer_.size());
    if (::getsockopt(socket_.get(), level_, IPT_SO_GET_ENTRIES, answer_.data(), &length) == 0) {
      break;
    }
    if (errno != EAGAIN || attempt == kAttemptsMax) {
      return Failure(SystemError::Last("IPT_SO_GET_ENTRIES " + name));
    }
  }
  auto table = ReadTable(family_, hooks_, entries());
  if (!table) return Failure(SystemError{EPROTO, "table " + name + ": " + table.error()});
  table_ = std::move(*table);
  return {};
}

std::expected<void, SystemError> TableSocket::Replace(const std::string& name,
                                                      const Remainder& left) {
  // The counters of the new entries start at zero. The kernel returns those of the old entries.
  std::vector<xt_counters> before(table_.entries.size());
  ipt_replace head{};
  SetName(head, name);
  head.valid_hooks = left.hooks.valid;
  head.num_entries = static_cast<std::uint32_t>(left.origins.size());
  head.size = static_cast<std::uint32_t>(left.bytes.size());
  std::copy(left.hooks.begin.begin(), left.hooks.begin.end(), head.hook_entry);
  std::copy(left.hooks.policy.begin(), left.hooks.policy.end(), head.underflow);
  head.num_counters = static_cast<std::uint32_t>(before.size());
  head.counters = before.data();
  std::vector<std::uint8_t> message(offsetof(ipt_replace, entries) + left.bytes.size());
  std::memcpy(message.data(), &head, offsetof(ipt_replace, entries));
  std::copy(left.bytes.begin(), left.bytes.end(),
            message.begin() + offsetof(ipt_replace, entries));
  if (::setsockopt(socket_.get(), level_, IPT_SO_SET_REPLACE, message.data(),
                   static_cast<socklen_t>(message.size())) != 0) {
    return Failure(SystemError::Last("IPT_SO_SET_REPLACE " + name));
  }
  xt_counters_info counted{};
  SetName(counted, name);
  counted.num_counters = head.num_entries;
  message.assign(sizeof(counted) + left.origins.size() * sizeof(xt_counters), 0);
  std::memcpy(message.data(), &counted, sizeof(counted));
  for (std::size_t i = 0; i < left.origins.size(); ++i) {
    std::memcpy(message.data() + sizeof(counted) + i * sizeof(xt_counters),
                &before[left.origins[i]], sizeof(xt_counters));
  }
  if (::setsockopt(socket_.get(), level_, IPT_SO_SET_ADD_COUNTERS, message.data(),
                   static_cast<socklen_t>(message.size())) != 0) {
    return Failure(SystemError::Last("IPT_SO_SET_ADD_COUNTERS " + name));
  }
  return {};
}

}  // namespace fairlead::legacy

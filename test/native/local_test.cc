// Who listens on an abstract Unix socket, and which ports are bound, asked of the kernel.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/file_descriptor.h"
#include "check.h"
#include "local/bound_ports.h"
#include "local/listener.h"

namespace fairlead::test {

namespace {

std::string NameFor(const char* what) {
  return "fairlead-native-test-" + std::to_string(::getpid()) + "-" + what;
}

/** Bound to the abstract name; it does not listen yet. */
FileDescriptor Bound(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK_EQUAL(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  return fd;
}

/** Bound to a port of ::, or with `only` not of 0.0.0.0. Returns the port. */
std::uint16_t BindAny(const FileDescriptor& fd, bool only) {
  const int value = only ? 1 : 0;
  CHECK_EQUAL(::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &value, sizeof value), 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  CHECK_EQUAL(::bind(fd.get(), any, length), 0);
  CHECK_EQUAL(::getsockname(fd.get(), any, &length), 0);
  return ntohs(address.sin6_port);
}

/** The entries of a port: family and protocol, a decimal number each. */
std::string EntriesOf(std::uint16_t port) {
  const auto entries = local::BoundPorts();
  CHECK(entries.has_value() && entries->size() % local::kBoundPortBytes == 0);
  std::string found;
  const std::span<const std::uint8_t> all(*entries);
  for (std::size_t at = 0; at < all.size(); at += local::kBoundPortBytes) {
    if ((all[at + 2] << 8 | all[at + 3]) != port) continue;
    const auto address = all.subspan(at + 4, 16);
    CHECK(std::ranges::all_of(address, [](std::uint8_t byte) { return byte == 0; }));
    found += std::to_string(all[at]) + " " + std::to_string(all[at + 1]) + " ";
  }
  return found;
}

}  // namespace

TEST("ports are those of sockets that listen or wait for datagrams, with their families") {
  const FileDescriptor tcp(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::uint16_t port = BindAny(tcp, false);
  CHECK_EQUAL(EntriesOf(port), "");
  CHECK_EQUAL(::listen(tcp.get(), 1), 0);
  CHECK_EQUAL(EntriesOf(port), "46 6 ");
  const FileDescriptor udp(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  CHECK_EQUAL(EntriesOf(BindAny(udp, true)), "6 17 ");
}

TEST("who listens is known by process and user, also when nobody accepts") {
  const std::string name = NameFor("listens");
  const FileDescriptor fd = Bound(name);
  CHECK_EQUAL(::listen(fd.get(), 4), 0);
  const auto found = local::FindListener(name);
  CHECK(found.has_value() && found->has_value());
  CHECK_EQUAL((*found)->pid, ::getpid());
  CHECK_EQUAL((*found)->uid, ::geteuid());
}

TEST("a listener proves that it was opened with CAP_NET_ADMIN, to those who have it") {
  const std::string name = NameFor("proves");
  auto opened = local::OpenListener(name);
  CHECK(opened.has_value());
  CHECK_EQUAL(local::OpenListener(name).error().error, EADDRINUSE);
  const auto proven = local::FindListener(name).value().value().administers_net;
  const std::string plain = NameFor("plain");
  const FileDescriptor fd = Bound(plain);
  CHECK_EQUAL(::listen(fd.get(), 4), 0);
  const auto unproven = local::FindListener(plain).value().value().administers_net;
  CHECK_EQUAL(proven.has_value(), unproven.has_value());
  CHECK(proven.value_or(true));
  CHECK(!unproven.value_or(false));
  CHECK_EQUAL(local::OpenListener(std::string(108, 'x')).error().error, ENAMETOOLONG);
}

TEST("nobody is found where a name is only bound, or is not taken, or only begins the same") {
  const std::string name = NameFor("bound");
  const FileDescriptor fd = Bound(name);
  CHECK(!local::FindListener(name).value().has_value());
  CHECK_EQUAL(::listen(fd.get(), 4), 0);
  CHECK(!local::FindListener(name + "x").value().has_value());
  CHECK(!local::FindListener(NameFor("nobody")).value().has_value());
}

TEST("a backlog that is full is an error, and so is a name that fits no address") {
  const std::string name = NameFor("full");
  const FileDescriptor fd = Bound(name);
  CHECK_EQUAL(::listen(fd.get(), 0), 0);
  CHECK(local::FindListener(name).has_value());
  CHECK_EQUAL(local::FindListener(name).error().error, EAGAIN);
  CHECK_EQUAL(local::FindListener(std::string(108, 'x')).error().error, ENAMETOOLONG);
}

}  // namespace fairlead::test

// Who listens on an abstract Unix socket, asked of the kernel.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "base/file_descriptor.h"
#include "check.h"
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

}  // namespace

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

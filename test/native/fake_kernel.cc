#include "fake_kernel.h"

#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netlink.h>
#include <poll.h>
#include <linux/bpf.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <string_view>

// The names that the linker gives (ld(1), --wrap).
extern "C" {
int __real_socket(int, int, int);
int __real_bind(int, const sockaddr*, socklen_t);
int __real_setsockopt(int, int, int, const void*, socklen_t);
int __real_getsockopt(int, int, int, void*, socklen_t*);
ssize_t __real_sendto(int, const void*, size_t, int, const sockaddr*, socklen_t);
ssize_t __real_recv(int, void*, size_t, int);
int __real_poll(pollfd*, nfds_t, int);
int __real_open(const char*, int, ...);
ssize_t __real_read(int, void*, size_t);
int __real_flock(int, int);
int __real_close(int);
int __real_mkdir(const char*, mode_t);
int __real_access(const char*, int);
int __real_unlink(const char*);
int __real_rmdir(const char*);
int __real_stat(const char*, struct stat*);
int __real_statfs(const char*, struct statfs*);
int __real_setrlimit(__rlimit_resource_t, const rlimit*);
long __real_syscall(long, ...);
}

namespace fairlead::test {

namespace {

/** No process has this many descriptors. */
constexpr int kFakeFd = 1 << 30;
constexpr std::size_t kHeaderBytes = 3;

struct State {
  bool active = false;
  std::span<const std::uint8_t> input;
  /** Sequence numbers of the messages that were sent last. */
  std::uint32_t first_sequence = 0;
  std::uint32_t last_sequence = 0;
  /** What is left of a file that is read. */
  std::string_view file;
};

thread_local State state;

struct Next {
  Turn turn = Turn::kNothing;
  std::span<const std::uint8_t> bytes;
};

/** At the end of the input there is nothing more. */
Next TakeTurn() {
  if (state.input.size() < kHeaderBytes) return {};
  const auto count = static_cast<std::uint8_t>(Turn::kCount);
  const auto turn = static_cast<Turn>(state.input[0] % count);
  std::uint16_t length;
  std::memcpy(&length, &state.input[1], sizeof(length));
  const auto rest = state.input.subspan(kHeaderBytes);
  const std::size_t taken = std::min<std::size_t>(length, rest.size());
  state.input = rest.subspan(taken);
  return {turn, rest.first(taken)};
}

void NoteSent(std::span<const std::uint8_t> bytes) {
  bool first = true;
  while (bytes.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (first) state.first_sequence = header.nlmsg_seq;
    first = false;
    state.last_sequence = header.nlmsg_seq;
    const std::size_t step = NLMSG_ALIGN(header.nlmsg_len);
    if (step == 0 || step > bytes.size()) break;
    bytes = bytes.subspan(step);
  }
}

void SetSequences(std::uint8_t* bytes, std::size_t length) {
  while (length >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, bytes, sizeof(header));
    header.nlmsg_seq = state.first_sequence;
    std::memcpy(bytes, &header, sizeof(header));
    const std::size_t step = NLMSG_ALIGN(header.nlmsg_len);
    if (step == 0 || step > length) break;
    bytes += step;
    length -= step;
  }
}

ssize_t Fail(int error) {
  errno = error;
  return -1;
}

ssize_t Acknowledge(void* to, std::size_t room) {
  struct {
    nlmsghdr header;
    nlmsgerr answer;
  } ack{};
  ack.header.nlmsg_len = sizeof(ack);
  ack.header.nlmsg_type = NLMSG_ERROR;
  ack.header.nlmsg_flags = NLM_F_CAPPED;
  ack.header.nlmsg_seq = state.last_sequence;
  ack.answer.msg.nlmsg_seq = state.last_sequence;
  const std::size_t length = std::min(room, sizeof(ack));
  std::memcpy(to, &ack, length);
  return static_cast<ssize_t>(length);
}

ssize_t Receive(void* to, std::size_t room) {
  const Next next = TakeTurn();
  switch (next.turn) {
    case Turn::kInterrupted:
      return Fail(EINTR);
    case Turn::kOverrun:
      return Fail(ENOBUFS);
    case Turn::kNothing:
      return Fail(EAGAIN);
    case Turn::kFailure:
      return Fail(EIO);
    case Turn::kTooLong:
      return static_cast<ssize_t>(room + 1);
    case Turn::kAcknowledge:
      return Acknowledge(to, room);
    default:
      break;
  }
  const std::size_t length = std::min(room, next.bytes.size());
  if (length > 0) std::memcpy(to, next.bytes.data(), length);
  if (next.turn == Turn::kAnswer) SetSequences(static_cast<std::uint8_t*>(to), length);
  return static_cast<ssize_t>(length);
}

/** The size of the table is that of the next one, so that it can be read immediately. */
int TellInfo(void* to, socklen_t* length) {
  const Next next = TakeTurn();
  if (next.turn != Turn::kBytes) return static_cast<int>(Fail(ENOENT));
  ipt_getinfo info{};
  const std::size_t known = std::min(sizeof(info), next.bytes.size());
  if (known > 0) std::memcpy(&info, next.bytes.data(), known);
  std::uint16_t size = 0;
  if (state.input.size() >= kHeaderBytes) std::memcpy(&size, &state.input[1], sizeof(size));
  info.size = size;
  std::memcpy(to, &info, std::min<std::size_t>(*length, sizeof(info)));
  return 0;
}

int TellEntries(void* to, socklen_t length) {
  const Next next = TakeTurn();
  if (next.turn == Turn::kNothing) return static_cast<int>(Fail(EAGAIN));
  if (next.turn != Turn::kBytes) return static_cast<int>(Fail(EINVAL));
  const std::size_t head = offsetof(ipt_get_entries, entrytable);
  const std::size_t room = length > head ? length - head : 0;
  const std::size_t taken = std::min(room, next.bytes.size());
  if (taken > 0) std::memcpy(static_cast<std::uint8_t*>(to) + head, next.bytes.data(), taken);
  return 0;
}

/** Whether a call does what it is asked for; errno says why it does not. */
bool Works(const Next& next) {
  switch (next.turn) {
    case Turn::kNothing:
      errno = ENOENT;
      return false;
    case Turn::kInterrupted:
      errno = EEXIST;
      return false;
    case Turn::kOverrun:
      errno = E2BIG;
      return false;
    case Turn::kFailure:
      errno = EIO;
      return false;
    default:
      return true;
  }
}

int Done() { return Works(TakeTurn()) ? 0 : -1; }

template <typename To>
void Tell(To* to, std::size_t room, std::span<const std::uint8_t> bytes) {
  const std::size_t length = std::min(room, bytes.size());
  std::memset(to, 0, room);
  if (length > 0) std::memcpy(to, bytes.data(), length);
}

/** bpf(2). Of many elements, as many are taken as the turn has bytes. */
long DoBpf(int command, bpf_attr& attr) {
  const Next next = TakeTurn();
  const bool works = Works(next);
  const auto some = static_cast<std::uint32_t>(next.bytes.size());
  switch (command) {
    case BPF_MAP_CREATE:
    case BPF_PROG_LOAD:
    case BPF_OBJ_GET:
    case BPF_LINK_CREATE:
      return works ? kFakeFd : -1;
    case BPF_OBJ_GET_INFO_BY_FD:
      if (works) Tell(reinterpret_cast<void*>(attr.info.info), attr.info.info_len, next.bytes);
      break;
    case BPF_MAP_LOOKUP_BATCH:
      attr.batch.count = std::min(attr.batch.count, some);
      break;
    case BPF_MAP_UPDATE_BATCH:
    case BPF_MAP_DELETE_BATCH:
      if (!works) attr.batch.count = std::min(attr.batch.count, some);
      break;
    default:
      break;
  }
  return works ? 0 : -1;
}

bool IsFake(int fd) { return state.active && fd == kFakeFd; }

}  // namespace

void PutTurn(Bytes& input, Turn turn, const Bytes& bytes) {
  const auto length = static_cast<std::uint16_t>(bytes.size());
  input.push_back(static_cast<std::uint8_t>(turn));
  input.resize(input.size() + sizeof(length));
  std::memcpy(input.data() + input.size() - sizeof(length), &length, sizeof(length));
  input.insert(input.end(), bytes.begin(), bytes.end());
}

FakeKernel::FakeKernel(std::span<const std::uint8_t> input) noexcept {
  state = State{};
  state.active = true;
  state.input = input;
}

FakeKernel::~FakeKernel() { state = State{}; }

}  // namespace fairlead::test

using fairlead::test::IsFake;
using fairlead::test::kFakeFd;
using fairlead::test::state;

extern "C" {

int __wrap_socket(int domain, int type, int protocol) {
  return state.active ? kFakeFd : __real_socket(domain, type, protocol);
}

int __wrap_bind(int fd, const sockaddr* address, socklen_t length) {
  return IsFake(fd) ? 0 : __real_bind(fd, address, length);
}

int __wrap_setsockopt(int fd, int level, int name, const void* value, socklen_t length) {
  return IsFake(fd) ? 0 : __real_setsockopt(fd, level, name, value, length);
}

int __wrap_getsockopt(int fd, int level, int name, void* value, socklen_t* length) {
  if (!IsFake(fd)) return __real_getsockopt(fd, level, name, value, length);
  if (level == SOL_SOCKET) {
    const int bytes = 212992;
    std::memcpy(value, &bytes, std::min<std::size_t>(*length, sizeof(bytes)));
    return 0;
  }
  if (name == IPT_SO_GET_INFO) return fairlead::test::TellInfo(value, length);
  return fairlead::test::TellEntries(value, *length);
}

ssize_t __wrap_sendto(int fd, const void* bytes, size_t length, int flags, const sockaddr* to,
                      socklen_t to_length) {
  if (!IsFake(fd)) return __real_sendto(fd, bytes, length, flags, to, to_length);
  fairlead::test::NoteSent({static_cast<const std::uint8_t*>(bytes), length});
  return static_cast<ssize_t>(length);
}

ssize_t __wrap_recv(int fd, void* to, size_t room, int flags) {
  return IsFake(fd) ? fairlead::test::Receive(to, room) : __real_recv(fd, to, room, flags);
}

int __wrap_poll(pollfd* polled, nfds_t count, int timeout) {
  return count == 1 && IsFake(polled->fd) ? 1 : __real_poll(polled, count, timeout);
}

int __wrap_open(const char* path, int flags, ...) {
  if (!state.active) {
    va_list rest;
    va_start(rest, flags);
    const int mode = va_arg(rest, int);
    va_end(rest);
    return __real_open(path, flags, mode);
  }
  state.file = "filter\nnat\n";
  return kFakeFd;
}

ssize_t __wrap_read(int fd, void* to, size_t room) {
  if (!IsFake(fd)) return __real_read(fd, to, room);
  const std::size_t length = std::min(room, state.file.size());
  std::memcpy(to, state.file.data(), length);
  state.file.remove_prefix(length);
  return static_cast<ssize_t>(length);
}

int __wrap_flock(int fd, int operation) { return IsFake(fd) ? 0 : __real_flock(fd, operation); }

int __wrap_mkdir(const char* path, mode_t mode) {
  return state.active ? fairlead::test::Done() : __real_mkdir(path, mode);
}

int __wrap_access(const char* path, int mode) {
  return state.active ? fairlead::test::Done() : __real_access(path, mode);
}

int __wrap_unlink(const char* path) {
  return state.active ? fairlead::test::Done() : __real_unlink(path);
}

int __wrap_rmdir(const char* path) {
  return state.active ? fairlead::test::Done() : __real_rmdir(path);
}

int __wrap_stat(const char* path, struct stat* to) {
  if (!state.active) return __real_stat(path, to);
  const auto next = fairlead::test::TakeTurn();
  fairlead::test::Tell(to, sizeof(*to), next.bytes);
  return fairlead::test::Works(next) ? 0 : -1;
}

int __wrap_statfs(const char* path, struct statfs* to) {
  if (!state.active) return __real_statfs(path, to);
  const auto next = fairlead::test::TakeTurn();
  fairlead::test::Tell(to, sizeof(*to), next.bytes);
  return fairlead::test::Works(next) ? 0 : -1;
}

int __wrap_setrlimit(__rlimit_resource_t resource, const rlimit* limit) {
  return state.active ? 0 : __real_setrlimit(resource, limit);
}

/**
 * Those with a function of their own do not come here. As syscall(2) does, it reads six arguments
 * whether or not they were given.
 */
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...) {
  va_list rest;
  va_start(rest, number);
  long given[6];
  for (long& one : given) one = va_arg(rest, long);
  va_end(rest);
  if (state.active && number == SYS_bpf) {
    return fairlead::test::DoBpf(static_cast<int>(given[0]),
                                 *reinterpret_cast<bpf_attr*>(given[1]));
  }
  return __real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

int __wrap_close(int fd) { return fd == kFakeFd ? 0 : __real_close(fd); }
}

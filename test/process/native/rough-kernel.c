// Preloaded: makes the kernel refuse netlink messages, as the words say that the file $ROUGH_KERNEL
// holds. The refusals are the kernel's own.
//   unprivileged   each message is sent without CAP_NET_ADMIN (EPERM)
//   unheard        the receive buffer is the smallest that there is: what does not fit is lost (ENOBUFS)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int Wanted(const char* word) {
  char text[64] = {0};
  const char* path = getenv("ROUGH_KERNEL");
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  return length > 0 && strstr(text, word) != NULL;
}

static int IsNetlink(int socket) {
  int domain = 0;
  socklen_t length = sizeof(domain);
  return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_NETLINK;
}

// Of this thread alone. Whether it could be done.
static int SetAdmin(int on) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data) != 0) return 0;
  if (on) data[0].effective |= 1U << CAP_NET_ADMIN;
  if (!on) data[0].effective &= ~(1U << CAP_NET_ADMIN);
  return syscall(SYS_capset, &header, data) == 0;
}

// Of a socket that had more room before, too.
static void SetRoom(int socket, int bytes) {
  (void)setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
}

ssize_t sendto(int socket, const void* bytes, size_t length, int flags,
               const struct sockaddr* address, socklen_t address_length) {
  static ssize_t (*real)(int, const void*, size_t, int, const struct sockaddr*, socklen_t);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "sendto");
  const int is_netlink = IsNetlink(socket);
  if (is_netlink) SetRoom(socket, Wanted("unheard") ? 0 : 1 << 20);
  const int rough = is_netlink && Wanted("unprivileged") && SetAdmin(0);
  const ssize_t sent = real(socket, bytes, length, flags, address, address_length);
  const int error = errno;
  if (rough && !SetAdmin(1)) abort();
  errno = error;
  return sent;
}

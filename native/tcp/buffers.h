// How much the kernel buffers for a TCP socket: limits, and what it holds.
#ifndef FAIRLEAD_TCP_BUFFERS_H_
#define FAIRLEAD_TCP_BUFFERS_H_

#include <linux/sock_diag.h>

#include <array>
#include <cstdint>

namespace fairlead::tcp {

/**
 * Limits each of the two buffers of a connected socket to about `bytes` of payload; the kernel takes
 * up to twice as much memory for it (tcp(7), SO_RCVBUF of socket(7)). Without CAP_NET_ADMIN,
 * net.core.rmem_max and wmem_max are limits, too. A socket that has failed stays as it is.
 */
void LimitBuffers(int fd, std::int32_t bytes) noexcept;

/**
 * Memory that the kernel holds for the socket at this moment: what was not read, what was not sent
 * or acknowledged, and what it keeps ready for more (SO_MEMINFO). 0 = there is no such socket.
 */
std::uint32_t BufferedBytes(int fd) noexcept;

/** The same of what SO_MEMINFO answers. */
std::uint32_t BufferedBytes(const std::array<std::uint32_t, SK_MEMINFO_VARS>& values) noexcept;

}  // namespace fairlead::tcp

#endif  // FAIRLEAD_TCP_BUFFERS_H_

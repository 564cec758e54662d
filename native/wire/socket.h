// A netlink socket of one protocol.
#ifndef FAIRLEAD_WIRE_SOCKET_H_
#define FAIRLEAD_WIRE_SOCKET_H_

#include <cstdint>
#include <expected>
#include <memory>
#include <span>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace fairlead::wire {

struct SocketOptions {
  /** NETLINK_*, e.g. NETLINK_NETFILTER. */
  int protocol = 0;
  /** A multicast group to join, e.g. NFNLGRP_NFTABLES; 0 = none. */
  int group = 0;
  /** Bytes of the receive buffer; 0 = the system's default. */
  int receive_buffer_bytes = 0;
  /** Length of the header between nlmsghdr and the attributes. Only traces use it. */
  std::size_t family_header_bytes = 0;
};

/**
 * A socket with extended acknowledgements (NETLINK_EXT_ACK) that do not repeat the refused message
 * (NETLINK_CAP_ACK), and with strict checks of dump requests (NETLINK_GET_STRICT_CHK), as far as
 * the kernel has these options. Only one thread may use it at a time.
 */
class Socket {
 public:
  static std::expected<Socket, SystemError> Open(const SocketOptions& options);

  /** The port that the kernel gave the socket. No other socket of its protocol has it. */
  std::uint32_t port() const noexcept { return port_; }

  /** The file descriptor, for poll(2). */
  int fd() const noexcept { return fd_.get(); }

  /** Sequence number of the next message to be sent. Sequence numbers wrap. */
  std::uint32_t next_sequence() const noexcept { return sequence_; }
  void SkipSequences(std::uint32_t count) noexcept { sequence_ += count; }

  /**
   * Records that answers to a request may still come. They would be read as answers to the next
   * request, so the socket must not be used again.
   */
  void LoseStep() noexcept { out_of_step_ = true; }
  bool out_of_step() const noexcept { return out_of_step_; }

  /** Bytes of the receive buffer as the kernel counts, the overhead of each datagram included. */
  std::size_t ReceiveBufferBytes() const noexcept;
  /** Grows the receive buffer to this size; up to net.core.rmem_max without CAP_NET_ADMIN. */
  void GrowReceiveBuffer(std::size_t bytes) noexcept;

  /**
   * Drops datagrams about what the socket with this port has sent, so that they wake no reader. If
   * the kernel refuses that, they still arrive.
   */
  void DropFrom(std::uint32_t port) noexcept;

  /** Sends `bytes` as one datagram. Grows the send buffer first where needed. */
  std::expected<void, SystemError> Send(std::span<const std::uint8_t> bytes);

  enum class Outcome { kData, kNothing, kOverrun };
  struct Received {
    Outcome outcome = Outcome::kNothing;
    /** Valid until the next call of Receive. */
    std::span<const std::uint8_t> datagram;
  };
  /**
   * The next datagram. Waits up to `timeout_ms` (0 = not at all), then returns kNothing. kOverrun
   * (ENOBUFS): the kernel dropped messages to this socket. Datagrams that are received later are
   * whole.
   */
  std::expected<Received, SystemError> Receive(int timeout_ms);

 private:
  Socket(FileDescriptor fd, std::uint32_t port, const SocketOptions& options);

  void GrowSendBuffer(std::size_t bytes) noexcept;
  void SetFlag(int option) noexcept;

  // The kernel builds dump datagrams of at most 32 KiB (netlink_recvmsg, max_recvmsg_len), larger
  // only for a single object that does not fit.
  static constexpr std::size_t kDatagramBytesMax = std::size_t{256} * 1024;

  FileDescriptor fd_;
  std::uint32_t port_;
  std::size_t family_header_bytes_;
  bool trace_;
  std::uint32_t sequence_;
  bool out_of_step_ = false;
  std::size_t send_buffer_bytes_ = 0;
  std::size_t receive_buffer_bytes_ = 0;
  std::unique_ptr<std::uint8_t[]> datagram_;
};

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_SOCKET_H_

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
  /** A group whose messages are wanted, e.g. NFNLGRP_NFTABLES; 0 = none. */
  int group = 0;
  /** Wanted size of the receive buffer; 0 = the system's default. */
  int receive_buffer_bytes = 0;
  /** Length of the header between nlmsghdr and the attributes; only traces need it. */
  std::size_t family_header_bytes = 0;
};

/**
 * Opened with extended acknowledgements, without the refused message in them (NETLINK_CAP_ACK), and
 * with strict checks of dump requests, as far as the kernel knows these.
 * Not safe for use by several threads at once.
 */
class Socket {
 public:
  static std::expected<Socket, SystemError> Open(const SocketOptions& options);

  /** The address that the kernel gave the socket; no other socket of its protocol has it. */
  std::uint32_t port() const noexcept { return port_; }

  /** For poll(2). */
  int fd() const noexcept { return fd_.get(); }

  /** Sequence number for the next message to be sent; they wrap. */
  std::uint32_t next_sequence() const noexcept { return sequence_; }
  void SkipSequences(std::uint32_t count) noexcept { sequence_ += count; }

  /**
   * What is left of an answer would be taken for the answer to the next request: the socket must
   * not be used again.
   */
  void LoseStep() noexcept { out_of_step_ = true; }
  bool out_of_step() const noexcept { return out_of_step_; }

  /** Size of the receive buffer as the kernel counts it, overhead of each datagram included. */
  std::size_t ReceiveBufferBytes() const noexcept;
  /** Makes the receive buffer at least this large, as far as the system permits. */
  void GrowReceiveBuffer(std::size_t bytes) noexcept;

  /** Sends `bytes` as one datagram, after growing the send buffer as needed. */
  std::expected<void, SystemError> Send(std::span<const std::uint8_t> bytes);

  enum class Outcome { kData, kNothing, kOverrun };
  struct Received {
    Outcome outcome = Outcome::kNothing;
    /** Valid until the next call. */
    std::span<const std::uint8_t> datagram;
  };
  /**
   * The next datagram. Waits up to `timeout_ms` (0 = not at all) and then gives kNothing. kOverrun
   * (ENOBUFS): the kernel dropped messages to this socket; what is received next is still whole.
   */
  std::expected<Received, SystemError> Receive(int timeout_ms);

 private:
  Socket(FileDescriptor fd, std::uint32_t port, const SocketOptions& options);

  void GrowSendBuffer(std::size_t bytes) noexcept;
  void SetFlag(int option) noexcept;

  // The kernel builds dump datagrams of at most 32 KiB (netlink_recvmsg, max_recvmsg_len), larger
  // only for a single object that does not fit.
  static constexpr std::size_t kDatagramBytesMax = 256 * 1024;

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

#include "binding/watcher.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "binding/thread.h"

namespace fairlead::binding {

namespace {

/** Room for some thousand messages. An overrun counts as one change. */
constexpr int kReceiveBufferBytes = 1024 * 1024;
constexpr int kDatagramsPerTurn = 1024;
/** The sleep after a change was reported, and after messages about other tables only. */
constexpr int kRestAfterChangeMs = 25;
constexpr int kRestMs = 2;

wire::SocketOptions OptionsFor(const Watcher::Reader& reader) noexcept {
  wire::SocketOptions options;
  options.receive_buffer_bytes = kReceiveBufferBytes;
  if (std::holds_alternative<nft::ChangeReader>(reader)) {
    options.protocol = NETLINK_NETFILTER;
    options.group = NFNLGRP_NFTABLES;
    options.family_header_bytes = sizeof(nfgenmsg);
  } else {
    options.protocol = NETLINK_ROUTE;
    options.group = RTNLGRP_LINK;
    options.family_header_bytes = sizeof(ifinfomsg);
  }
  return options;
}

}  // namespace

Watcher::Watcher(std::string network_namespace, Reader reader, Changed changed, Ended ended)
    : namespace_(std::move(network_namespace)),
      reader_(std::move(reader)),
      changed_(std::move(changed)),
      ended_(std::move(ended)) {}

Watcher::~Watcher() { Abandon(); }

std::expected<void, SystemError> Watcher::Start() {
  wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return std::unexpected(SystemError::Last("eventfd"));
  const auto started = StartThread(
      thread_,
      [](void* self) {
        pthread_setname_np(pthread_self(), "fairlead-watch");
        auto* watcher = static_cast<Watcher*>(self);
        const auto done = watcher->Run();
        watcher->ended_(done ? std::nullopt : std::optional(done.error()));
      },
      this);
  started_ = started.has_value();
  return started;
}

void Watcher::Ignore(std::uint32_t port) noexcept {
  own_port_ = port;
  // The kernel still drops what comes from the port before, which may be another program's by now.
  Wake();
}

void Watcher::Close() noexcept {
  closed_ = true;
  Wake();
}

void Watcher::Wake() noexcept {
  if (wake_.valid()) static_cast<void>(::eventfd_write(wake_.get(), 1));
}

void Watcher::Abandon() noexcept {
  Close();
  if (started_) pthread_join(thread_, nullptr);
  started_ = false;
}

std::expected<void, SystemError> Watcher::Run() {
  auto entered = EnterNamespace(namespace_);
  if (!entered) return entered;
  auto socket = wire::Socket::Open(OptionsFor(reader_));
  if (!socket) return std::unexpected(socket.error());
  return Follow(*socket);
}

void Watcher::Report() const {
  changed_(std::visit([](const auto& reader) { return reader.committer(); }, reader_));
}

std::expected<void, SystemError> Watcher::Follow(wire::Socket& socket) {
  // Changes from before the socket was open are not known, so one is reported.
  Report();
  // Ports of other protocols have other owners.
  const bool is_nft = std::holds_alternative<nft::ChangeReader>(reader_);
  std::uint32_t dropped = 0;
  for (;;) {
    const std::uint32_t own = own_port_;
    if (is_nft && own != std::exchange(dropped, own)) socket.DropFrom(own);
    const auto ready = Wait(&socket, -1);
    if (!ready) return std::unexpected(ready.error());
    if (!*ready) return {};
    for (int count = 0; count < kDatagramsPerTurn; ++count) {
      const auto received = socket.Receive(0);
      if (!received) return std::unexpected(received.error());
      if (received->outcome == wire::Socket::Outcome::kNothing) break;
      const bool overrun = received->outcome == wire::Socket::Outcome::kOverrun;
      std::visit(
          [&](auto& reader) {
            if (overrun) {
              reader.TakeOverrun();
            } else {
              reader.Take(received->datagram, own_port_);
            }
          },
          reader_);
    }
    const bool changed = std::visit([](auto& reader) { return reader.TakeChanged(); }, reader_);
    if (changed) Report();
    const auto rested = Wait(nullptr, changed ? kRestAfterChangeMs : kRestMs);
    if (!rested) return std::unexpected(rested.error());
    if (!*rested) return {};
  }
}

std::expected<bool, SystemError> Watcher::Wait(const wire::Socket* socket,
                                               int timeout_ms) const noexcept {
  pollfd waits[] = {{wake_.get(), POLLIN, 0}, {socket ? socket->fd() : -1, POLLIN, 0}};
  // A signal may end the wait early, which does no harm.
  if (::poll(waits, 2, timeout_ms) < 0 && errno != EINTR) {
    return std::unexpected(SystemError::Last("poll netlink"));
  }
  eventfd_t wakes = 0;
  if ((waits[0].revents & POLLIN) != 0) static_cast<void>(::eventfd_read(wake_.get(), &wakes));
  return !closed_;
}

}  // namespace fairlead::binding

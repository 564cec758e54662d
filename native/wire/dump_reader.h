// Reads the kernel's answer to a dump request.
#ifndef FAIRLEAD_WIRE_DUMP_READER_H_
#define FAIRLEAD_WIRE_DUMP_READER_H_

#include <cstdint>
#include <expected>
#include <functional>
#include <span>
#include <string>

#include "wire/attr_reader.h"
#include "wire/message_writer.h"
#include "wire/socket.h"

namespace fairlead::wire {

/** How a dump ended. */
struct DumpEnd {
  /** The objects changed during the dump (NLM_F_DUMP_INTR). */
  bool interrupted = false;
  /** Answers were lost (ENOBUFS). */
  bool overrun = false;
  /** Errno of the failure; 0 = none. `words` has the kernel's text. */
  int error = 0;
  std::string words;
};

/** Reads the datagrams that answer a request, up to NLMSG_DONE or NLMSG_ERROR. */
class DumpReader {
 public:
  /** Reads the message of one object. */
  using TakeObject = std::function<Taken(const Message& message)>;

  DumpReader(std::uint32_t sequence, TakeObject take_object)
      : sequence_(sequence), take_object_(std::move(take_object)) {}

  void Take(std::span<const std::uint8_t> datagram);
  void TakeOverrun() noexcept { end_.overrun = true; }
  bool done() const noexcept { return done_; }

  /** How the dump ended. ETIMEDOUT when the kernel did not end it. */
  DumpEnd Finish();

 private:
  void Fail(int error, std::string words);

  std::uint32_t sequence_;
  TakeObject take_object_;
  DumpEnd end_;
  bool done_ = false;
};

/**
 * Sends a request with the socket's next sequence number, and receives until the reader is done.
 * The reader must have been made for that number. The socket is out of step afterwards when more
 * answers may still come.
 */
std::expected<void, SystemError> Ask(Socket& socket, const MessageWriter& request,
                                     DumpReader& reader);
/** The same, with a reader that calls `take` for each object. */
std::expected<DumpEnd, SystemError> Ask(Socket& socket, const MessageWriter& request,
                                        DumpReader::TakeObject take);

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_DUMP_READER_H_

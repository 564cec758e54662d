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
  /** What was dumped changed meanwhile (NLM_F_DUMP_INTR). */
  bool interrupted = false;
  /** Answers were lost. */
  bool overrun = false;
  /** 0, or why the dump failed, with the kernel's words. */
  int error = 0;
  std::string words;
};

/** Takes the datagrams that follow a request, until the kernel says that it is done. */
class DumpReader {
 public:
  /** Takes one object. */
  using TakeObject = std::function<Taken(const Message& message)>;

  DumpReader(std::uint32_t sequence, TakeObject take_object)
      : sequence_(sequence), take_object_(std::move(take_object)) {}

  void Take(std::span<const std::uint8_t> datagram);
  void TakeOverrun() noexcept { end_.overrun = true; }
  bool done() const noexcept { return done_; }

  /** The end, as far as it has come. */
  DumpEnd Finish();

 private:
  void Fail(int error, std::string words);

  std::uint32_t sequence_;
  TakeObject take_object_;
  DumpEnd end_;
  bool done_ = false;
};

/**
 * Sends a request with the next number of the socket, and receives until the reader, which was made
 * for that number, is done. When more answers may still come, the socket is out of step afterwards.
 */
std::expected<void, SystemError> Ask(Socket& socket, const MessageWriter& request,
                                     DumpReader& reader);
/** The same with a reader that gives each object to `take`. */
std::expected<DumpEnd, SystemError> Ask(Socket& socket, const MessageWriter& request,
                                        DumpReader::TakeObject take);

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_DUMP_READER_H_

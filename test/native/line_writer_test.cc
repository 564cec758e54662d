// Lines to files that keep their writer waiting: native/log/line_writer.
#include "log/line_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "base/file_descriptor.h"
#include "check.h"

namespace fairlead::test {

using log::LineWriter;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kLong{10'000};
constexpr milliseconds kShort{50};

struct Pipe {
  Pipe() {
    int fds[2] = {-1, -1};
    CHECK(::pipe2(fds, O_CLOEXEC) == 0);
    reader = FileDescriptor(fds[0]);
    writer = FileDescriptor(fds[1]);
  }

  /** All that is there until `count` bytes have come. */
  std::string Read(std::size_t count) {
    std::string text;
    char part[4096];
    while (text.size() < count) {
      const ssize_t got = ::read(reader.get(), part, sizeof(part));
      if (got <= 0) break;
      text.append(part, static_cast<std::size_t>(got));
    }
    return text;
  }

  FileDescriptor reader;
  FileDescriptor writer;
};

}  // namespace

TEST("lines come out in order, and the writer knows when") {
  Pipe pipe;
  const auto writer = LineWriter::Start(pipe.writer.get());
  CHECK(writer.has_value());
  std::string all;
  for (int i = 0; i < 100; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    all += line;
    (*writer)->Push(line);
  }
  CHECK((*writer)->Drain(kLong));
  CHECK_EQUAL((*writer)->pending_bytes(), 0U);
  CHECK_EQUAL(pipe.Read(all.size()), all);
}

TEST("a pipe that nobody reads holds up its thread only, and goes on when somebody does") {
  Pipe pipe;
  const auto writer = LineWriter::Start(pipe.writer.get());
  const std::string line(1000, 'x');
  for (int i = 0; i < 200; ++i) (*writer)->Push(line);
  CHECK(!(*writer)->Drain(kShort));
  CHECK((*writer)->pending_bytes() > 0U);
  CHECK_EQUAL(pipe.Read(200 * line.size()).size(), 200 * line.size());
  CHECK((*writer)->Drain(kLong));
}

TEST("a pipe that somebody has made non-blocking loses nothing either") {
  Pipe pipe;
  CHECK(::fcntl(pipe.writer.get(), F_SETFL, O_NONBLOCK) == 0);
  const auto writer = LineWriter::Start(pipe.writer.get());
  const std::string line(1000, 'x');
  for (int i = 0; i < 200; ++i) (*writer)->Push(line);
  CHECK(!(*writer)->Drain(kShort));
  CHECK_EQUAL(pipe.Read(200 * line.size()).size(), 200 * line.size());
  CHECK((*writer)->Drain(kLong));
}

TEST("a full disk and a closed descriptor are waited for, and the writer can go meanwhile") {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  CHECK(full.valid());
  for (const int fd : {full.get(), -1}) {
    const auto writer = LineWriter::Start(fd);
    CHECK(writer.has_value());
    (*writer)->Push("lost\n");
    CHECK(!(*writer)->Drain(kShort));
    CHECK_EQUAL((*writer)->pending_bytes(), 5U);
  }
}

}  // namespace fairlead::test

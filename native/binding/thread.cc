#include "binding/thread.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>

#include <memory>

#include "base/file_descriptor.h"

namespace fairlead::binding {

namespace {

struct Work {
  void (*run)(void* self);
  void* self;
};

void* Run(void* work) {
  const std::unique_ptr<Work> owned(static_cast<Work*>(work));
  owned->run(owned->self);
  return nullptr;
}

}  // namespace

// pthread_create returns an error when no thread can be made. std::thread throws.
std::expected<void, SystemError> StartThread(pthread_t& thread, void (*run)(void* self),
                                             void* self) {
  auto work = std::make_unique<Work>(run, self);
  sigset_t every;
  sigset_t before;
  sigfillset(&every);
  // The thread inherits the mask that blocks all signals.
  pthread_sigmask(SIG_SETMASK, &every, &before);
  const int error = pthread_create(&thread, nullptr, Run, work.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return std::unexpected(SystemError{error, "pthread_create"});
  static_cast<void>(work.release());
  return {};
}

std::expected<void, SystemError> EnterNamespace(const std::string& path) {
  if (path.empty()) return {};
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::unexpected(SystemError::Last("open " + path));
  // setns(2) moves the calling thread only.
  if (::setns(fd.get(), CLONE_NEWNET) == 0) return {};
  return std::unexpected(SystemError::Last("setns " + path));
}

}  // namespace fairlead::binding

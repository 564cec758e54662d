// The class `LineWriter` that JavaScript sees.
#ifndef FAIRLEAD_BINDING_LINE_WRITER_WRAP_H_
#define FAIRLEAD_BINDING_LINE_WRITER_WRAP_H_

#include <napi.h>

#include <memory>

#include "binding/tagged_wrap.h"
#include "log/line_writer.h"

namespace fairlead::binding {

/**
 *   new LineWriter(fd: number)
 *   push(line: string): void            queues a line, without waiting
 *   pendingBytes(): number              bytes of the lines that are not wholly written
 *   drain(longestMs: number): boolean   waits, at most a minute; true = all lines are written
 */
class LineWriterWrap : public TaggedWrap<LineWriterWrap> {
 public:
  static constexpr napi_type_tag kTag = {0x902531da6af47c76, 0x542a2dc07b37f8da};

  static Napi::Function Define(Napi::Env env);
  explicit LineWriterWrap(const Napi::CallbackInfo& info);

 private:
  void Push(const Napi::CallbackInfo& info);
  Napi::Value PendingBytes(const Napi::CallbackInfo& info);
  Napi::Value Drain(const Napi::CallbackInfo& info);

  std::unique_ptr<log::LineWriter> writer_;
};

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_LINE_WRITER_WRAP_H_

#include "binding/line_writer_wrap.h"

#include <chrono>
#include <utility>

#include "binding/error.h"

#include "binding/type_error.h"

namespace fairlead::binding {

namespace {

/** Longest wait of `drain`; longer ones are cut. NaN counts as 0. */
constexpr double kDrainLongestMs = 60'000;

}  // namespace

Napi::Function LineWriterWrap::Define(Napi::Env env) {
  return DefineClass(env, "LineWriter",
                     {InstanceMethod<&LineWriterWrap::Push>("push"),
                      InstanceMethod<&LineWriterWrap::PendingBytes>("pendingBytes"),
                      InstanceMethod<&LineWriterWrap::Drain>("drain")});
}

LineWriterWrap::LineWriterWrap(const Napi::CallbackInfo& info) : TaggedWrap<LineWriterWrap>(info) {
  if (!info[0].IsNumber()) {
    ThrowTypeError(info.Env(), "LineWriter: the file descriptor must be a number");
    return;
  }
  auto writer = log::LineWriter::Start(info[0].As<Napi::Number>().Int32Value());
  if (writer) {
    writer_ = std::move(*writer);
    return;
  }
  napi_throw(info.Env(), ToError(info.Env(), writer.error()));
}

void LineWriterWrap::Push(const Napi::CallbackInfo& info) {
  if (!info[0].IsString()) {
    ThrowTypeError(info.Env(), "LineWriter.push: the line must be a string");
    return;
  }
  writer_->Push(info[0].As<Napi::String>().Utf8Value());
}

Napi::Value LineWriterWrap::PendingBytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(writer_->pending_bytes()));
}

Napi::Value LineWriterWrap::Drain(const Napi::CallbackInfo& info) {
  const double ms = info[0].IsNumber() ? info[0].As<Napi::Number>().DoubleValue() : 0;
  const double bounded = ms > 0 ? (ms < kDrainLongestMs ? ms : kDrainLongestMs) : 0;
  const std::chrono::milliseconds longest(static_cast<std::int64_t>(bounded));
  return Napi::Boolean::New(info.Env(), writer_->Drain(longest));
}

}  // namespace fairlead::binding

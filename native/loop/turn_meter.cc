#include "loop/turn_meter.h"

#include <uv.h>

#include <algorithm>
#include <cmath>

namespace fairlead::loop {

namespace {

constexpr double kBucketsPerDoubling = 4;
constexpr double kNsPerUs = 1e3;
constexpr double kUsPerMs = 1e3;
constexpr double kNsPerMs = 1e6;

}  // namespace

Napi::Function TurnMeter::Define(Napi::Env env) {
  return DefineClass(
      env, "TurnMeter",
      {InstanceMethod<&TurnMeter::Take>("take"), InstanceMethod<&TurnMeter::Close>("close")});
}

TurnMeter::TurnMeter(const Napi::CallbackInfo& info) : binding::TaggedWrap<TurnMeter>(info) {
  const Napi::Env env = info.Env();
  uv_loop_t* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok) {
    Napi::Error::New(env, "TurnMeter: there is no event loop").ThrowAsJavaScriptException();
    return;
  }
  check_ = new uv_check_t;
  // Neither call can fail.
  uv_check_init(loop, check_);
  check_->data = this;
  last_ns_ = uv_hrtime();
  last_idle_ns_ = uv_metrics_idle_time(loop);
  uv_check_start(check_, OnTurn);
  uv_unref(reinterpret_cast<uv_handle_t*>(check_));
}

TurnMeter::~TurnMeter() { Stop(); }

void TurnMeter::Stop() noexcept {
  if (check_ == nullptr) return;
  uv_close(reinterpret_cast<uv_handle_t*>(check_),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_check_t*>(handle); });
  check_ = nullptr;
}

/** Runs after the loop has polled: from one call to the next is one turn. */
void TurnMeter::OnTurn(uv_check_t* check) {
  auto& self = *static_cast<TurnMeter*>(check->data);
  const std::uint64_t now_ns = uv_hrtime();
  const std::uint64_t idle_ns = uv_metrics_idle_time(check->loop);
  const std::uint64_t passed_ns = now_ns - self.last_ns_;
  const std::uint64_t waited_ns = idle_ns - self.last_idle_ns_;
  const std::uint64_t turn_ns = passed_ns > waited_ns ? passed_ns - waited_ns : 0;
  self.last_ns_ = now_ns;
  self.last_idle_ns_ = idle_ns;
  self.longest_ns_ = std::max(self.longest_ns_, turn_ns);
  self.turns_ += 1;
  const double us = std::max(1.0, static_cast<double>(turn_ns) / kNsPerUs);
  const auto bucket = static_cast<std::size_t>(std::log2(us) * kBucketsPerDoubling);
  self.counts_[std::min(bucket, kBuckets - 1)] += 1;
}

double TurnMeter::PercentileMs(double share) const noexcept {
  const double longest_ms = static_cast<double>(longest_ns_) / kNsPerMs;
  double counted = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    counted += static_cast<double>(counts_[i]);
    if (counted < share * static_cast<double>(turns_)) continue;
    const double end_us = std::exp2(static_cast<double>(i + 1) / kBucketsPerDoubling);
    return std::min(longest_ms, end_us / kUsPerMs);
  }
  return longest_ms;
}

Napi::Value TurnMeter::Take(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Napi::Object taken = Napi::Object::New(env);
  taken.Set("p50", Napi::Number::New(env, PercentileMs(0.5)));
  taken.Set("p99", Napi::Number::New(env, PercentileMs(0.99)));
  taken.Set("longest", Napi::Number::New(env, static_cast<double>(longest_ns_) / kNsPerMs));
  longest_ns_ = 0;
  turns_ = 0;
  counts_.fill(0);
  return taken;
}

void TurnMeter::Close(const Napi::CallbackInfo&) { Stop(); }

}  // namespace fairlead::loop

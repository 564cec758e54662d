// The class `TurnMeter` that JavaScript sees.
#ifndef FAIRLEAD_LOOP_TURN_METER_H_
#define FAIRLEAD_LOOP_TURN_METER_H_

#include <napi.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "binding/tagged_wrap.h"

// Part of libuv, whose headers and those of the kernel exclude each other.
struct uv_check_s;

namespace fairlead::loop {

/**
 *   new TurnMeter()
 *   take(): { p50: number, p99: number, longest: number }   milliseconds; then counts from zero
 *   close(): void
 *
 * Measures how long the turns of this thread's event loop take, without the time in which the loop
 * waits. It has no timer: a loop that waits is not woken. Percentiles are upper bounds, at most
 * 19 % above the true value. Without a turn all are 0.
 */
class TurnMeter : public binding::TaggedWrap<TurnMeter> {
 public:
  static constexpr napi_type_tag kTag = {0xe4054bc097607c8b, 0xe1ae58588053e550};

  static Napi::Function Define(Napi::Env env);
  explicit TurnMeter(const Napi::CallbackInfo& info);
  ~TurnMeter() override;

 private:
  /** Four buckets for each doubling, from 1 µs to more than an hour. */
  static constexpr std::size_t kBuckets = 128;

  static void OnTurn(uv_check_s* check);
  Napi::Value Take(const Napi::CallbackInfo& info);
  void Close(const Napi::CallbackInfo& info);
  void Stop() noexcept;
  double PercentileMs(double share) const noexcept;

  /** Owned by the loop once it is closing. */
  uv_check_s* check_ = nullptr;
  std::uint64_t last_ns_ = 0;
  std::uint64_t last_idle_ns_ = 0;
  std::uint64_t longest_ns_ = 0;
  std::uint64_t turns_ = 0;
  std::array<std::uint64_t, kBuckets> counts_{};
};

}  // namespace fairlead::loop

#endif  // FAIRLEAD_LOOP_TURN_METER_H_

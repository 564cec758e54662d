#include "binding/watch_wrap.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binding/type_error.h"
#include "binding/watching.h"

namespace fairlead::binding {

namespace {

struct WatchOptions {
  std::string network_namespace;
  Watcher::Reader reader;
};

/** Nothing when the value is neither undefined nor an array of strings, or as below. */
std::optional<std::vector<std::string>> ReadStrings(Napi::Env env, const Napi::Value& value) {
  std::vector<std::string> strings;
  if (value.IsUndefined()) return strings;
  if (!value.IsArray()) return std::nullopt;
  const Napi::Array array = value.As<Napi::Array>();
  for (std::uint32_t i = 0; i < array.Length(); ++i) {
    const Napi::Value element = array.Get(i);
    if (env.IsExceptionPending() || !element.IsString()) return std::nullopt;
    strings.push_back(element.As<Napi::String>().Utf8Value());
  }
  return strings;
}

/** Nothing when the options are invalid, or when an exception is pending. */
std::optional<WatchOptions> ReadWatchOptions(Napi::Env env, const Napi::Value& value) {
  if (!value.IsObject()) return std::nullopt;
  const Napi::Object object = value.As<Napi::Object>();
  const Napi::Value netns = object.Get("netns");
  const Napi::Value tables = object.Get("tables");
  if (env.IsExceptionPending()) return std::nullopt;
  if (!(netns.IsString() || netns.IsUndefined())) return std::nullopt;
  std::string network_namespace;
  if (netns.IsString()) network_namespace = netns.As<Napi::String>().Utf8Value();
  if (tables.IsUndefined()) return WatchOptions{network_namespace, route::LinkChangeReader()};
  if (!tables.IsArray()) return std::nullopt;
  std::vector<nft::WatchedTable> watched;
  const Napi::Array array = tables.As<Napi::Array>();
  for (std::uint32_t i = 0; i < array.Length(); ++i) {
    const Napi::Value element = array.Get(i);
    if (env.IsExceptionPending() || !element.IsObject()) return std::nullopt;
    const Napi::Value family = element.As<Napi::Object>().Get("family");
    const Napi::Value name = element.As<Napi::Object>().Get("table");
    const Napi::Value chains = element.As<Napi::Object>().Get("chains");
    if (env.IsExceptionPending() || !family.IsNumber() || !name.IsString()) return std::nullopt;
    auto prefixes = ReadStrings(env, chains);
    if (!prefixes) return std::nullopt;
    const std::uint32_t number = family.As<Napi::Number>().Uint32Value();
    watched.push_back({static_cast<std::uint8_t>(number), name.As<Napi::String>().Utf8Value(),
                       *std::move(prefixes)});
  }
  return WatchOptions{network_namespace, nft::ChangeReader(std::move(watched))};
}

}  // namespace

Napi::Function WatchWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "Watch",
      {InstanceMethod<&WatchWrap::Ignore>("ignore"), InstanceMethod<&WatchWrap::Close>("close")});
}

WatchWrap::WatchWrap(const Napi::CallbackInfo& info) : TaggedWrap<WatchWrap>(info) {
  const Napi::Env env = info.Env();
  auto options = ReadWatchOptions(env, info[0]);
  if (env.IsExceptionPending()) return;
  if (!options || !info[1].IsFunction()) {
    ThrowTypeError(env, "Watch: takes options, which may have tables, and a function");
    return;
  }
  watching_ = Watching::Start(env, info[1].As<Napi::Function>(),
                              std::move(options->network_namespace), std::move(options->reader));
}

WatchWrap::~WatchWrap() {
  if (watching_) watching_->Close();
}

void WatchWrap::Ignore(const Napi::CallbackInfo& info) {
  if (info[0].IsNumber()) watching_->Ignore(info[0].As<Napi::Number>().Uint32Value());
}

void WatchWrap::Close(const Napi::CallbackInfo&) { watching_->Close(); }

}  // namespace fairlead::binding

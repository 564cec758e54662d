#include "binding/socket_wrap.h"

#include <climits>
#include <optional>

#include "acct/acct_family.h"
#include "binding/completion.h"
#include "binding/type_error.h"
#include "bpf/bpf_family.h"
#include "bytes/bytes_family.h"
#include "conntrack/conntrack_family.h"
#include "ipset/ipset_family.h"
#include "ipvs/ipvs_family.h"
#include "legacy/legacy_family.h"
#include "nft/nft_family.h"
#include "nftrace/nftrace_family.h"
#include "route/route_family.h"

namespace fairlead::binding {

namespace {

struct SocketOptions {
  std::string network_namespace;
  int receive_buffer_bytes = 0;
  std::string xtables_lock = "/run/xtables.lock";
};

/** Nothing, with a pending exception, when the options are invalid. */
std::optional<SocketOptions> ReadSocketOptions(Napi::Env env, const Napi::Value& value) {
  SocketOptions options;
  if (value.IsUndefined()) return options;
  if (!value.IsObject()) {
    ThrowTypeError(env, "Socket: options must be an object");
    return std::nullopt;
  }
  const Napi::Object object = value.As<Napi::Object>();
  const Napi::Value netns = object.Get("netns");
  if (env.IsExceptionPending()) return std::nullopt;
  const Napi::Value bytes = object.Get("receiveBufferBytes");
  if (env.IsExceptionPending()) return std::nullopt;
  if (netns.IsString()) {
    options.network_namespace = netns.As<Napi::String>().Utf8Value();
  } else if (!netns.IsUndefined()) {
    ThrowTypeError(env, "Socket: options.netns must be a path");
    return std::nullopt;
  }
  const Napi::Value lock = object.Get("xtablesLock");
  if (env.IsExceptionPending()) return std::nullopt;
  if (lock.IsString()) {
    options.xtables_lock = lock.As<Napi::String>().Utf8Value();
  } else if (!lock.IsUndefined()) {
    ThrowTypeError(env, "Socket: options.xtablesLock must be a path");
    return std::nullopt;
  }
  if (bytes.IsUndefined()) return options;
  const double number = bytes.IsNumber() ? bytes.As<Napi::Number>().DoubleValue() : -1;
  if (!(number >= 0 && number <= INT_MAX / 2)) {
    ThrowTypeError(env, "Socket: options.receiveBufferBytes must be a number of bytes");
    return std::nullopt;
  }
  options.receive_buffer_bytes = static_cast<int>(number);
  return options;
}

/** The families that a socket serves. */
Families MakeFamilies(const SocketOptions& options) {
  Families families;
  families.push_back(std::make_unique<nft::NftFamily>(options.receive_buffer_bytes));
  families.push_back(std::make_unique<conntrack::ConntrackFamily>());
  families.push_back(std::make_unique<ipvs::IpvsFamily>(options.receive_buffer_bytes));
  families.push_back(std::make_unique<route::RouteFamily>(options.receive_buffer_bytes));
  families.push_back(std::make_unique<ipset::IpsetFamily>());
  families.push_back(std::make_unique<legacy::LegacyFamily>(options.xtables_lock));
  families.push_back(std::make_unique<acct::AcctFamily>());
  families.push_back(std::make_unique<nftrace::NftraceFamily>());
  families.push_back(std::make_unique<bytes::BytesFamily>());
  families.push_back(std::make_unique<bpf::BpfFamily>());
  return families;
}

}  // namespace

Napi::Function SocketWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "Socket",
      {InstanceMethod<&SocketWrap::Submit>("submit"), InstanceMethod<&SocketWrap::Close>("close")});
}

SocketWrap::SocketWrap(const Napi::CallbackInfo& info) : TaggedWrap<SocketWrap>(info) {
  const auto options = ReadSocketOptions(info.Env(), info[0]);
  if (!options) return;
  completion_ = Completion::Start(info.Env(), options->network_namespace, MakeFamilies(*options));
}

SocketWrap::~SocketWrap() {
  if (completion_) completion_->Close();
}

Napi::Value SocketWrap::Submit(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsTypedArray() ||
      info[0].As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
    ThrowTypeError(env, "Socket.submit: the buffer must be a Uint8Array");
    return env.Undefined();
  }
  if (completion_->closed()) {
    const auto deferred = Napi::Promise::Deferred::New(env);
    deferred.Reject(Napi::Error::New(env, "Socket.submit: the socket is closed").Value());
    return deferred.Promise();
  }
  return completion_->Submit(env, info[0].As<Napi::Uint8Array>());
}

void SocketWrap::Close(const Napi::CallbackInfo&) { completion_->Close(); }

}  // namespace fairlead::binding

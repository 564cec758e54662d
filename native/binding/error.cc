#include "binding/error.h"

#include <string>

namespace fairlead::binding {

namespace {

napi_value ToString(napi_env env, const std::string& text) {
  napi_value value = nullptr;
  napi_create_string_utf8(env, text.data(), text.size(), &value);
  return value;
}

}  // namespace

napi_value ToError(napi_env env, const SystemError& failure) {
  napi_value error = nullptr;
  napi_value number = nullptr;
  const std::string words = failure.Text();
  napi_create_error(env, nullptr, ToString(env, words), &error);
  napi_create_int32(env, failure.error, &number);
  napi_set_named_property(env, error, "errno", number);
  napi_set_named_property(env, error, "syscall", ToString(env, failure.call));
  return error;
}

}  // namespace fairlead::binding

#include "binding/pending_submit.h"

#include <cerrno>
#include <cstring>

#include "binding/error.h"

namespace fairlead::binding {

namespace {

/** Smaller answers are copied, which costs less than a finalizer. */
constexpr std::size_t kExternalBytesMin = std::size_t{64} * 1024;

void FreeMemory(napi_env, void* data, void*) {
  ByteBuffer::Free()(static_cast<std::uint8_t*>(data));
}

/** An ArrayBuffer over the memory. It is a copy where this Node forbids external memory. */
napi_value ToArrayBuffer(napi_env env, ByteBuffer bytes) {
  const std::size_t size = bytes.size();
  napi_value array_buffer = nullptr;
  if (size >= kExternalBytesMin &&
      napi_create_external_arraybuffer(env, bytes.data(), size, FreeMemory, nullptr,
                                       &array_buffer) == napi_ok) {
    static_cast<void>(bytes.Release().release());
    return array_buffer;
  }
  void* copy = nullptr;
  if (napi_create_arraybuffer(env, size, &copy, &array_buffer) != napi_ok) return nullptr;
  if (size > 0) std::memcpy(copy, bytes.data(), size);
  return array_buffer;
}

napi_value ToUint8Array(napi_env env, ByteBuffer bytes) {
  const std::size_t size = bytes.size();
  const napi_value array_buffer = ToArrayBuffer(env, std::move(bytes));
  napi_value array = nullptr;
  if (array_buffer == nullptr) return nullptr;
  napi_create_typedarray(env, napi_uint8_array, size, array_buffer, 0, &array);
  return array;
}

}  // namespace

std::unique_ptr<PendingSubmit> PendingSubmit::Create(napi_env env, napi_value buffer,
                                                     napi_value* promise) {
  void* data = nullptr;
  std::size_t length = 0;
  napi_ref reference = nullptr;
  napi_deferred deferred = nullptr;
  if (napi_get_typedarray_info(env, buffer, nullptr, &length, &data, nullptr, nullptr) != napi_ok ||
      napi_create_reference(env, buffer, 1, &reference) != napi_ok) {
    return nullptr;
  }
  if (napi_create_promise(env, &deferred, promise) != napi_ok) {
    napi_delete_reference(env, reference);
    return nullptr;
  }
  std::unique_ptr<PendingSubmit> submit(new PendingSubmit(env, deferred, reference));
  submit->input = {static_cast<const std::uint8_t*>(data), length};
  return submit;
}

PendingSubmit::~PendingSubmit() { napi_delete_reference(env_, buffer_); }

void PendingSubmit::Settle() {
  if (!result) {
    napi_reject_deferred(env_, deferred_, ToError(env_, result.error()));
    return;
  }
  const napi_value value = ToUint8Array(env_, std::move(*result));
  if (value != nullptr) {
    napi_resolve_deferred(env_, deferred_, value);
  } else {
    napi_reject_deferred(env_, deferred_,
                         ToError(env_, {ENOMEM, "allocation of the answer's ArrayBuffer"}));
  }
}

}  // namespace fairlead::binding

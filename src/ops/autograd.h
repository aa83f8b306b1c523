// What the backward functions of all operators share.
#pragma once

#include <comera/base/error.h>
#include <comera/weights/torch.h>

namespace comera::ops {

/// The fused backward uses saved values that are not part of a graph, so a gradient of the gradient would be
/// silently wrong.
inline void refuse_second_derivative(const char* op) {
  check(
      !torch::GradMode::is_enabled(),
      "[{}] has no second derivative (create_graph = true); COMERA_IMPL=reference selects operators that do",
      op);
}

/// Typed handle of a registered operator, for calls through the dispatcher.
template <class Signature>
c10::TypedOperatorHandle<Signature> operator_handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace comera::ops

#include "model/config/norm_config.h"

#include "nn/norm.h"

namespace mt {

NormKind NormConfig::norm_kind() const {
  return normalization == "RMSNorm" ? NormKind::rms : NormKind::layer;
}

}  // namespace mt

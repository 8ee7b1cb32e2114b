// A Llama as Meta publishes it (model/meta_names.h), as a ModelSource.
#pragma once

#include <string>

#include "model/hugging_face_source.h"
#include "model/meta_names.h"

namespace mt {

class MetaSource : public HuggingFaceSource {
 public:
  MetaSource(const std::string& folder, const ModelSourceOptions& options);

 protected:
  std::vector<ForeignName> names_of(const Param& row) const override {
    return meta_tensors(config_, row);
  }
};

}  // namespace mt

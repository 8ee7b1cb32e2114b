// What the tests of token files share: a folder that vanishes, small datasets, the code of an
// error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/files/indexed_dataset_writer.h"
#include "data/files/manifest.h"
#include "tests/base/scratch.h"

namespace mt {

using Documents = std::vector<std::vector<std::int32_t>>;  // an empty one has no sequence

inline void write_documents(const std::string& prefix, TokenType type, const Documents& documents) {
  IndexedDatasetWriter writer(prefix, type, {});
  for (const auto& tokens : documents) {
    const auto length = static_cast<std::int32_t>(tokens.size());
    const std::vector<std::int32_t> lengths(tokens.empty() ? 0 : 1, length);
    writer.add_document(tokens, lengths);
  }
  writer.finish();
  writer.commit({});
}

// The exit code of the mt::Error that `body` throws; Exit::ok where it throws none.
template <class Body>
Exit code_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code();
  }
  return Exit::ok;
}

}  // namespace mt

// faiss's file format, read and written (faiss/impl/index_write.cpp, unchanged from 1.5 on; all
// little-endian): what faiss.read_index() opens, and faiss.write_index() made of a Flat, of scalar
// or 8-bit product codes, or of an IVF by squared distances of any of these, with centres that are
// a Flat or an HNSW, behind rotations of any kind, and refined by a Flat or scalar codes.
#pragma once

#include <functional>
#include <string>

#include "base/file.h"
#include "search/vector_index.h"

namespace mt {

// Exit::bad_data, naming the file, for one that is damaged, or of another kind of index.
VectorIndex read_index(const std::string& path);

// Calls `write` with the bytes of its file, some at a time; a trained index.
void write_index(const VectorIndex& index, const std::function<void(Bytes)>& write);

}  // namespace mt

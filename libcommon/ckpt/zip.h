// Zip archives as PyTorch writes them (caffe2/serialize/inline_container.cc).  Little-endian:
//   record    local header, 30 bytes: 50 4B 03 04 | version 0000 | flags 0808 | method 0000 |
//             time, date 0 | crc, csize, usize 0 | name_len u16 | extra_len u16
//             name
//             extra: [zip64], 'F' 'B' pad_len u16 'Z' * pad_len
//             payload, at a multiple of 64 from the archive's start
//             descriptor: 50 4B 07 08 | crc u32 | csize | usize (u32 each; u64 with zip64)
//             An empty payload has flags 0800 and no descriptor.
//   entry     one a record, 46 bytes: 50 4B 01 02 | ... | crc, csize, usize | ... | offset u32
//             name
//             extra: [zip64]
//   end       zip64 end record 50 4B 06 06 (56 bytes), its locator 50 4B 06 07 (20 bytes) and the
//             classic end record 50 4B 05 06 (22 bytes), always all three
//   [zip64]   01 00 len u16, then if the size is large: usize u64, csize u64 (0 in a local header),
//             then if the header's offset is large: offset u64.  Nothing if neither is.
// "Large" is 0xFFFFFFFF or more; such fields hold 0xFFFFFFFF in an entry.  Names are ROOT/RECORD
// with one root folder for all.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/allowance.h"
#include "base/file.h"

namespace mt {

// Reads an archive that lies in memory (a mapped file, or a part of one).  Stored records are views
// of it; deflated ones, which other programs write, are inflated when the reader opens, as far as
// the allowance goes.  Sizes, offsets, names and that no two records overlap are checked, checksums
// are not: PyTorch can be told not to compute them.  Errors are Exit::bad_data and begin with
// `name`.  Reading from several threads is safe.
class ZipReader {
 public:
  ZipReader(Bytes archive, std::string name, Allowance& allowance);
  ZipReader(Bytes archive, std::string name);  // the allowance of a file as large
  ZipReader(ZipReader&&) = default;            // a copy would view the original's inflated records

  const std::string& name() const { return name_; }
  const std::string& root() const { return root_; }  // without the slash
  std::vector<std::string> records() const;          // names below the root, in the archive's order
  const Bytes* find(std::string_view record) const;  // null if there is none
  Bytes at(std::string_view record) const;

 private:
  struct Directory {
    std::uint64_t offset, size, entries;
  };
  Directory find_directory() const;
  void read_entry(std::uint64_t& at, std::uint64_t end, Allowance& allowance);
  void check_no_overlap();
  void inflate(Bytes packed, std::uint64_t size, std::string_view record, std::string& out);

  Bytes archive_;
  std::string name_, root_;
  std::vector<std::string> order_;
  std::map<std::string, Bytes, std::less<>> records_;
  std::map<std::string, std::string> inflated_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places_;  // of headers with their data
};

using Sink = std::function<void(Bytes)>;  // takes the next bytes of an output

// Writes an archive from front to back.
class ZipWriter {
 public:
  ZipWriter(std::string root, Sink sink) : root_(std::move(root)), sink_(std::move(sink)) {}
  void add(std::string_view record, Bytes payload);
  // Adds `size` bytes that come in pieces: begin(), then append() all of them.
  void begin(std::string_view record, std::uint64_t size);
  void append(Bytes piece);
  void add(std::string_view record, std::string_view payload) { add(record, as_bytes(payload)); }
  void finish();                                      // the directory; nothing may follow
  std::uint64_t written() const { return written_; }  // bytes given to the sink

 private:
  struct Entry {
    std::string name;
    std::uint64_t header_offset, size;
    std::uint32_t crc = 0;
  };
  void end_record();
  void put(std::string_view bytes);

  std::string root_;
  Sink sink_;
  std::uint64_t written_ = 0;
  std::vector<Entry> entries_;
  std::uint64_t missing_ = 0;  // bytes of the last one
};

}  // namespace mt

// Lines and blocks of plain, gzip and zstd files.
#include "base/input/line_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/hash.h"
#include "data/corpus/line_pipeline.h"
#include "tests/data/support.h"

namespace mt {
namespace {

std::string gzip(const std::string& text) {
  z_stream stream = {};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string packed(text.size() + 1000, '\0');
  std::string source = text;
  stream.next_in = reinterpret_cast<Bytef*>(source.data());
  stream.avail_in = static_cast<uInt>(source.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("deflate");
  return packed;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

std::string unpack(const std::string& stored) {
  const Scratch folder;
  write_file_atomically(folder.path("f"), stored, false);
  ByteSource source(folder.path("f"), [] {});
  std::string content;
  char piece[1000];
  while (const std::size_t count = source.read(piece)) content.append(piece, count);
  EXPECT_EQ(source.stored_bytes(), static_cast<std::int64_t>(stored.size()));
  EXPECT_EQ(source.hash(), hash_hex(as_bytes(stored)));
  return content;
}

std::string sample_text() {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "line " + std::to_string(i * 7919 % 1000) + "\n";
  return text;
}

TEST(ByteSource, RecognisesFormatsByTheirFirstBytes) {
  const std::string text = sample_text();
  EXPECT_EQ(unpack(text), text);
  EXPECT_EQ(unpack(gzip(text)), text);
  EXPECT_EQ(unpack(zstd(text)), text);
  EXPECT_EQ(unpack(""), "");
  EXPECT_EQ(unpack("a"), "a");
  EXPECT_EQ(unpack(gzip("")), "");
  EXPECT_EQ(unpack(zstd("")), "");
}

TEST(ByteSource, MembersAndFramesFollowEachOther) {
  EXPECT_EQ(unpack(gzip("one\n") + gzip("") + gzip("two\n")), "one\ntwo\n");
  EXPECT_EQ(unpack(zstd("one\n") + zstd("") + zstd("two\n")), "one\ntwo\n");
  EXPECT_EQ(unpack(gzip("one\n") + std::string(512, '\0')), "one\n") << "padding of a tape";
  const std::string skippable("\x50\x2A\x4D\x18\x03\0\0\0abc", 11);
  EXPECT_EQ(unpack(skippable + zstd("one\n")), "one\n");
}

TEST(ByteSource, CutAnywhereItIsBadData) {
  for (const std::string& packed :
       {gzip("some text, some more text\n"), zstd("some text, some more text\n")})
    for (std::size_t size = 4; size < packed.size(); ++size)
      EXPECT_EQ(code_of([&] { unpack(packed.substr(0, size)); }), Exit::bad_data) << size;
}

TEST(ByteSource, ErrorsNameTheFileAndTheByte) {
  const Scratch folder;
  const auto error = [&](const std::string& stored) {
    write_file_atomically(folder.path("f"), stored, true);
    return error_of([&] {
      ByteSource source(folder.path("f"), [] {});
      char piece[100];
      while (source.read(piece) > 0) continue;
    });
  };
  const std::string packed = gzip("some text\n");
  EXPECT_EQ(error(packed.substr(0, 15)),
            "65 " + folder.path("f") + ": ends at byte 15, inside a gzip member");
  EXPECT_EQ(error(zstd("some text\n").substr(0, 12)),
            "65 " + folder.path("f") + ": ends at byte 12, inside a zstd frame");
  EXPECT_EQ(error(packed + "junk"), "65 " + folder.path("f") +
                                        ": damaged gzip member at or after byte " +
                                        std::to_string(packed.size()) + ": incorrect header check");
}

struct Line {
  std::string text, file;
  std::int64_t number;
  bool operator==(const Line&) const = default;
};

std::vector<Line> lines_of(const LineReader::Options& options, std::size_t* blocks = nullptr) {
  LineReader reader(options);
  std::vector<Line> lines;
  LineBlock block;
  while (reader.next(block)) {
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      lines.push_back({std::string(line), block.file, number});
    });
    if (blocks != nullptr) ++*blocks;
  }
  return lines;
}

TEST(ByteSource, APipeThatNobodyWritesToCanBeLeft) {
  const Scratch folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { ByteSource(folder.path("pipe"), [] { fail(Exit::stopped, "now"); }); }),
            "75 now");
}

TEST(LineReader, LinesAreTheSameForAnyBlockSize) {
  const Scratch folder;
  const std::string a = folder.path("a"), b = folder.path("b"), none = folder.path("none");
  write_file_atomically(a, "one\n\nthree is longer than a block\nfour without newline", false);
  write_file_atomically(b, gzip("five\n\n"), false);
  write_file_atomically(none, "", false);
  const std::vector<Line> expected = {{"one", a, 1},
                                      {"", a, 2},
                                      {"three is longer than a block", a, 3},
                                      {"four without newline", a, 4},
                                      {"five", b, 1},
                                      {"", b, 2}};
  for (std::size_t block_bytes = 1; block_bytes < 70; ++block_bytes)
    EXPECT_EQ(lines_of({.inputs = {none, a, none, b}, .block_bytes = block_bytes}), expected);
}

TEST(LineReader, BlocksEndWithLines) {
  const Scratch folder;
  write_file_atomically(folder.path("a"), sample_text(), false);
  const std::vector<std::string> inputs = {folder.path("a")};
  const std::vector<Line> all = lines_of({.inputs = inputs, .block_bytes = 1'000'000});
  EXPECT_EQ(all.size(), 5000U);
  for (const std::size_t block_bytes : {1000, 4096, 5000, 20'000}) {
    std::size_t blocks = 0;
    EXPECT_EQ(lines_of({.inputs = inputs, .block_bytes = block_bytes}, &blocks), all);
    EXPECT_GT(blocks, sample_text().size() / block_bytes);
  }
}

TEST(LineReader, ALineBeyondTheLimitIsBadData) {
  const Scratch folder;
  write_file_atomically(folder.path("a"), "short\n" + std::string(5000, 'x') + "\n", false);
  const auto read = [&](std::size_t limit) {
    return error_of(
        [&] { lines_of({.inputs = {folder.path("a")}, .block_bytes = 100, .line_limit = limit}); });
  };
  EXPECT_EQ(read(1000), "65 " + folder.path("a") + ":2: line of more than 1000 bytes");
  EXPECT_EQ(read(10000), "");
}

TEST(LineReader, InputsAreReported) {
  const Scratch folder;
  const std::string packed = zstd(sample_text());
  write_file_atomically(folder.path("a"), packed, false);
  LineReader reader({.inputs = {folder.path("a")}});
  LineBlock block;
  while (reader.next(block)) continue;
  ASSERT_EQ(reader.inputs().size(), 1U);
  EXPECT_EQ(reader.inputs()[0].bytes, static_cast<std::int64_t>(packed.size()));
  EXPECT_EQ(reader.inputs()[0].hash, hash_hex(as_bytes(packed)));
}

TEST(LineReader, PatternsAreSortedAndMustMatch) {
  const Scratch folder;
  for (const char* name : {"b.jsonl", "a.jsonl", "c.txt", "x*.jsonl"})
    write_file_atomically(folder.path(name), "", false);
  using Names = std::vector<std::string>;
  EXPECT_EQ(expand_inputs({folder.path("[ab].jsonl"), "-"}),
            (Names{folder.path("a.jsonl"), folder.path("b.jsonl"), "-"}));
  EXPECT_EQ(expand_inputs({folder.path("x*.jsonl")}), (Names{folder.path("x*.jsonl")}));
  EXPECT_EQ(code_of([&] { expand_inputs({folder.path("*.gz")}); }), Exit::no_input);
}

TEST(LinePipeline, KeepsTheOrderForAnyNumberOfThreads) {
  const Scratch folder;
  write_file_atomically(folder.path("a"), sample_text(), false);
  for (const int threads : {0, 1, 2, 7}) {
    LineReader reader({.inputs = {folder.path("a")}, .block_bytes = 500});
    std::string text;
    run_line_pipeline<std::string>(
        reader, threads, [](const LineBlock& block, std::string& part) { part = block.text(); },
        [&](const LineBlock&, const std::string& part) { text += part; });
    EXPECT_EQ(text, sample_text());
  }
}

TEST(LineReader, ALineBeyondTheLimitMayBePassedOver) {
  const Scratch folder;
  const std::string long_line(70000, 'x');
  for (const auto& [content, expected] :
       {std::pair<std::string, std::string>{"a\n" + long_line + "\nb\n", "1 a|2 -|3 b|"},
        {long_line + "\nb", "1 -|2 b|"},
        {"a\n" + long_line, "1 a|2 -|"},
        {long_line + "\n" + long_line + "\n\n", "1 -|2 -|3 |"},
        {"a\nb\n" + long_line + "\nc\nd", "1 a|2 b|3 -|4 c|5 d|"}}) {
    write_file_atomically(folder.path("a"), content, true);
    LineReader reader({.inputs = {folder.path("a")},
                       .block_bytes = 100,
                       .line_limit = 1000,
                       .pass_long_lines = true});
    std::string lines;
    for (LineBlock block; reader.next(block);) {
      if (!block.too_long.empty()) {
        EXPECT_EQ(block.too_long, "line of more than 1000 bytes");
        EXPECT_EQ(block.text().find_first_not_of('x'), std::string_view::npos);
        lines += concat(block.first_line, " -|");
        continue;
      }
      for_each_line(block, [&](std::string_view line, std::int64_t number) {
        lines += concat(number, " ", line, "|");
      });
    }
    EXPECT_EQ(lines, expected);
    EXPECT_EQ(reader.inputs()[0].bytes, static_cast<std::int64_t>(content.size()));
  }
}

TEST(LineReader, ByteOrderMarksArePassedOverOrNamed) {
  const Scratch folder;
  const std::string path = folder.path("a");
  const auto read = [&](const std::string& content) {
    write_file_atomically(path, content, true);
    std::string text;
    const std::string error = error_of([&] {
      LineReader reader({.inputs = {path}, .block_bytes = 4});
      for (LineBlock block; reader.next(block);) text += concat(block.text(), "|");
    });
    return error.empty() ? text : error;
  };
  EXPECT_EQ(read("\xEF\xBB\xBF{}\n{}\n"), "{}\n|{}\n|");
  EXPECT_EQ(read("\xEF\xBB\xBF"), "");
  EXPECT_EQ(read("\xEF\xBB\xBF\nab"), "\n|ab|");
  EXPECT_EQ(read("ab\n\xEF\xBB\xBF"
                 "c\n"),
            "ab\n|\xEF\xBB\xBF"
            "c\n|");  // not at the start
  EXPECT_EQ(read("\xEF\xBB"), "\xEF\xBB|");
  const auto refusal = [&](std::string_view encoding, std::string_view how = "") {
    return concat("65 ", path, ": is ", encoding, how, "; expected UTF-8, which iconv -f ",
                  encoding, " -t UTF-8 makes of it");
  };
  const std::string marked = ", by its byte order mark";
  using std::string_view_literals::operator""sv;
  for (const std::string_view start : {"\xFF\xFE{\0"sv, "\xFE\xFF\0{"sv})
    EXPECT_EQ(read(concat(start, "\n")), refusal("UTF-16", marked));
  for (const std::string_view start : {"\xFF\xFE\0\0{\0\0\0"sv, "\0\0\xFE\xFF\0\0\0{"sv})
    EXPECT_EQ(read(concat(start, "\n")), refusal("UTF-32", marked));
  EXPECT_EQ(read(std::string("{\0\"\0\n\0"sv)), refusal("UTF-16LE"));
  EXPECT_EQ(read(std::string("\0{\0\"\0\n"sv)), refusal("UTF-16BE"));
  EXPECT_EQ(read(std::string("{\0\0\0\"\0\0\0\n"sv)), refusal("UTF-32LE"));
  EXPECT_EQ(read(std::string("\0\0\0{\0\0\0\"\n"sv)), refusal("UTF-32BE"));
}

// Frames of one raw block, whose headers ask for windows of up to 2 GiB, as zstd --long=31 does.
TEST(LineReader, LongWindowsOfZstdAreRead) {
  const Scratch folder;
  const std::string text = "a\nb\n";
  for (const int window_log : {10, 27, 28, 30, 31}) {
    std::string packed("\x28\xB5\x2F\xFD\0", 5);
    packed += static_cast<char>((window_log - 10) << 3);
    packed += static_cast<char>(text.size() << 3 | 1);  // the last block
    packed.append(2, '\0');
    write_file_atomically(folder.path("a"), packed + text, true);
    LineReader reader({.inputs = {folder.path("a")}});
    LineBlock block;
    ASSERT_TRUE(reader.next(block)) << window_log;
    EXPECT_EQ(block.text(), text) << window_log;
  }
}

TEST(LinePipeline, ThrowsWhatTheFirstBlockToFailThrew) {
  const Scratch folder;
  write_file_atomically(folder.path("a"), sample_text() + std::string(3000, 'x'), false);
  const auto run = [&](int work_fails_at, int finish_fails_at) {
    LineReader reader({.inputs = {folder.path("a")}, .block_bytes = 500, .line_limit = 2000});
    int finished = 0;
    const std::string error = error_of([&] {
      run_line_pipeline<int>(
          reader, 4,
          [&](const LineBlock& block, int&) {
            if (block.first_line > work_fails_at) fail(Exit::bad_data, "work ", block.first_line);
          },
          [&](const LineBlock& block, int) {
            if (block.first_line > finish_fails_at)
              fail(Exit::io_error, "finish ", block.first_line);
            ++finished;
          });
    });
    EXPECT_GT(finished, 0);
    return error;
  };
  for (int i = 0; i < 50; ++i) {
    const std::string work = run(1000, 9999), finish = run(2000, 1000);
    EXPECT_TRUE(work.starts_with("65 work 10")) << work;
    EXPECT_TRUE(finish.starts_with("74 finish 10")) << finish;
    EXPECT_TRUE(run(9999, 9999).ends_with("/a:5001: line of more than 2000 bytes"));
  }
}

TEST(LinePipeline, ReadsNothingMoreWhenReadingHasFailed) {
  const Scratch folder;
  write_file_atomically(folder.path("a"), sample_text(), false);
  std::atomic<int> checks = 0;  // the second one fails, as where a signal has come
  const auto check = [&] {
    if (++checks == 2) fail(Exit::stopped, "stopped");
  };
  LineReader reader({.inputs = {folder.path("a")}, .block_bytes = 500, .checkpoint = check});
  const auto work = [&](const LineBlock&, int&) {  // the first block is at work meanwhile
    for (int i = 0; i < 100 && checks < 3; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  EXPECT_EQ(error_of([&] { run_line_pipeline<int>(reader, 4, work, [](const auto&...) {}); }),
            "75 stopped");
  EXPECT_EQ(checks, 2);
}

std::vector<std::string> all_lines(LineReader::Options options) {
  LineReader reader(std::move(options));
  std::vector<std::string> lines;
  LineBlock block;
  while (reader.next(block))
    for_each_line(block, [&](std::string_view line, std::int64_t) { lines.emplace_back(line); });
  return lines;
}

TEST(LineReader, ShardsAreTogetherAllLinesInTheirOrder) {
  const Scratch folder;
  std::vector<std::string> inputs;
  for (const std::string& content :
       {sample_text(), std::string("no end"), gzip(sample_text()), std::string(), sample_text(),
        std::string("\n\na\n"), "one long line " + std::string(5000, 'x') + "\nb"}) {
    inputs.push_back(folder.path(concat("f", inputs.size())));
    write_file_atomically(inputs.back(), content, false);
  }
  const std::vector<std::string> all = all_lines({.inputs = inputs});
  for (const std::int64_t shards : {2, 3, 7, 100, 3001})
    for (const std::size_t block_bytes : {64, 5000}) {
      std::vector<std::string> together;
      for (std::int64_t shard = 0; shard < shards; ++shard)
        for (std::string& line : all_lines(
                 {.inputs = inputs, .block_bytes = block_bytes, .shard = shard, .shards = shards}))
          together.push_back(std::move(line));
      EXPECT_EQ(together, all) << shards;
    }
  EXPECT_EQ(code_of([] { all_lines({.inputs = {"/dev/null"}, .shards = 2}); }), Exit::usage);
}

TEST(LineReader, SaysWhichBytesOfAShardItHasRead) {
  const Scratch folder;
  const std::string path = folder.path("f");
  write_file_atomically(path, "ab\ncd\nef\ngh\n", false);
  LineReader reader({.inputs = {path}, .shard = 1, .shards = 2});
  LineBlock block;
  ASSERT_TRUE(reader.next(block));
  EXPECT_EQ(block.text(), "ef\ngh\n");
  EXPECT_EQ(block.file, path + " from byte 6");
  EXPECT_FALSE(reader.next(block));
  ASSERT_EQ(reader.inputs().size(), 1U);
  EXPECT_EQ(reader.inputs()[0].bytes, 6);
  EXPECT_EQ(reader.inputs()[0].hash, hash_hex(as_bytes("ef\ngh\n")));
}

TEST(LineReader, SkipsLines) {
  const Scratch folder;
  const std::vector<std::string> inputs = {folder.path("a"), folder.path("b")};
  write_file_atomically(inputs[0], "1\n\n3", false);
  write_file_atomically(inputs[1], "4\n5\n", false);
  const std::vector<std::string> all = {"1", "", "3", "4", "5"};
  for (std::size_t skip = 0; skip <= 6; ++skip)
    for (const std::size_t block_bytes : {1, 1000})
      EXPECT_EQ(all_lines({.inputs = inputs,
                           .block_bytes = block_bytes,
                           .skip_lines = static_cast<std::int64_t>(skip)}),
                std::vector<std::string>(
                    all.begin() + static_cast<long>(std::min<std::size_t>(skip, 5)), all.end()));
  LineReader reader({.inputs = inputs, .skip_lines = 1});
  LineBlock block;
  ASSERT_TRUE(reader.next(block));
  EXPECT_EQ(block.first_line, 2);
}

TEST(LinePipeline, WorksOnALineThatIsMuchLongerThanABlockAlone) {
  const Scratch folder;
  const std::string path = folder.path("f");
  std::string content;
  for (int i = 0; i < 60; ++i)
    content += std::string(i % 7 == 3 ? 10'000 : 50, static_cast<char>('a' + i % 26)) + "\n";
  write_file_atomically(path, content, false);
  for (const int threads : {1, 2, 7}) {
    LineReader reader({.inputs = {path}, .block_bytes = 200});
    std::atomic<int> at_work = 0;
    std::string together;
    run_line_pipeline<int>(
        reader, threads,
        [&](const LineBlock& block, int&) {
          const int others = at_work++;
          EXPECT_TRUE(block.size <= 400 || others == 0);
          --at_work;
        },
        [&](const LineBlock& block, int) { together += block.text(); });
    EXPECT_EQ(together, content);
  }
}

}  // namespace
}  // namespace mt

#include "ckpt/pickle.h"

#include <gtest/gtest.h>

#include <limits>

#include "ckpt/pickle_text.h"
#include "tests/ckpt/support.h"

namespace mt {
namespace {

using namespace std::string_literals;
using Kind = PyValue::Kind;
using test::error_of;
using test::from_hex;

PyValue read(const std::string& stream) { return read_pickle(as_bytes(stream), "p"); }
PyValue read_hex(const std::string& digits) { return read(from_hex(digits)); }

// --- Streams of the specification (9.2, 9.5)
// ------------------------------------------------------

TEST(PickleWriter, ListOfNone) {
  EXPECT_EQ(write_pickle(PyValue::list({PyValue()})), from_hex("80025d4e612e"));
}

TEST(PickleWriter, EnumMember) {
  const PyValue value =
      PyValue::call(PyValue::global("megatron.core.transformer.enums", "AttnBackend"), {5});
  EXPECT_EQ(write_pickle(value),
            "\x80\x02"
            "cmegatron.core.transformer.enums\nAttnBackend\nK\x05\x85R.");
}

TEST(PickleWriter, MinimalCommonState) {
  const PyValue args = PyValue::make(PyValue::global("argparse", "Namespace"),
                                     PyValue::dict({{"tensor_model_parallel_size", 1},
                                                    {"pipeline_model_parallel_size", 1},
                                                    {"no_save_rng", true}}));
  const PyValue common =
      PyValue::dict({{"args", args}, {"checkpoint_version", 3.0}, {"iteration", 100}});
  const std::string golden = from_hex(
      "80027d285804000000617267736361726770617273650a4e616d6573706163650a29817d28581a00000074656e73"
      "6f725f6d6f64656c5f706172616c6c656c5f73697a654b01581c000000706970656c696e655f6d6f64656c5f7061"
      "72616c6c656c5f73697a654b01580b0000006e6f5f736176655f726e678875625812000000636865636b706f696e"
      "745f76657273696f6e4740080000000000005809000000697465726174696f6e4b64752e");
  EXPECT_EQ(golden.size(), 174u);
  EXPECT_EQ(write_pickle(common), golden);
  EXPECT_EQ(read(golden), common);
}

TEST(PickleWriter, EveryKindComesBack) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  PyValue object = PyValue::call(PyValue::global("collections", "OrderedDict"), {});
  object.set_item("a", 1);
  object.set_item(2, "b");
  object.append("item");
  object.set_state(PyValue::dict({{"_metadata", PyValue()}}));
  std::vector<PyValue> many;
  for (int i = 0; i < 2001; ++i) many.push_back(i);
  const std::vector<PyValue> values = {PyValue(),
                                       true,
                                       false,
                                       0,
                                       255,
                                       256,
                                       65535,
                                       65536,
                                       -1,
                                       -129,
                                       std::int64_t{1} << 31,
                                       -(std::int64_t{1} << 31),
                                       -(std::int64_t{1} << 31) - 1,
                                       INT64_MAX,
                                       INT64_MIN,
                                       PyValue::big_integer(from_hex("000000000000000001")),
                                       0.0,
                                       -0.0,
                                       1e300,
                                       nan,
                                       "",
                                       "caf\xc3\xa9",
                                       PyValue::bytes(""),
                                       PyValue::bytes(from_hex("00ff80")),
                                       PyValue::tuple(),
                                       PyValue::tuple({1}),
                                       PyValue::tuple({1, 2}),
                                       PyValue::tuple({1, 2, 3}),
                                       PyValue::tuple({1, 2, 3, 4}),
                                       PyValue::list(),
                                       PyValue::list(many),
                                       PyValue::set(),
                                       PyValue::set({1, 2}),
                                       PyValue::dict(),
                                       PyValue::global("torch", "float32"),
                                       object,
                                       PyValue::make(PyValue::global("a", "B")),
                                       PyValue::persistent(PyValue::tuple({"storage", 1}))};
  for (const PyValue& value : values) EXPECT_EQ(read(write_pickle(value)), value);
  PyValue dict = PyValue::dict();
  for (const PyValue& value : values) dict.set_item(value, PyValue::list({value}));
  EXPECT_EQ(read(write_pickle(dict)), dict);
}

TEST(PickleWriter, IntegersTakeTheShortestForm) {
  EXPECT_EQ(write_pickle(128), from_hex("80024b802e"));
  EXPECT_EQ(write_pickle(1577), from_hex("80024d29062e"));
  EXPECT_EQ(write_pickle(-2), from_hex("80024afeffffff2e"));
  EXPECT_EQ(write_pickle(std::int64_t{1} << 31), from_hex("80028a0500000080002e"));
  EXPECT_EQ(write_pickle(-(std::int64_t{1} << 39)), from_hex("80028a0500000000802e"));
}

// --- Reading
// --------------------------------------------------------------------------------------

TEST(PickleReader, Protocol4) {  // pickle.dumps({'a': [1, 2.5, b'\0', 'a'], ...}, 4), CPython 3.11
  const PyValue value = read_hex(
      "8004953e000000000000007d94288c0161945d94284b01474004000000000000430100946801658c016e948a0900"
      "00000000000000408c0173948f94284b03908c016694289194752e");
  EXPECT_EQ(value, PyValue::dict({{"a", PyValue::list({1, 2.5, PyValue::bytes("\0"s), "a"})},
                                  {"n", PyValue::big_integer(from_hex("000000000000000040"))},
                                  {"s", PyValue::set({3})},
                                  {"f", PyValue::call(PyValue::global("__builtin__", "frozenset"),
                                                      {PyValue::list()})}}));
}

TEST(PickleReader, OpcodesOneByOne) {
  const PyValue twice = PyValue::tuple({PyValue(), PyValue()});
  const std::vector<std::pair<std::string, PyValue>> cases = {
      {"I42\n.", 42},
      {"I01\n.", true},
      {"I00\n.", false},
      {"L-7L\n.", -7},
      {"L8\n.", 8},
      {"F-1.5\n.", -1.5},
      {"S'it\\'s\\x41\\n'\n.", "it'sA\n"},
      {"Vcaf\\u00e9\\U0001F600\xe9\n.", "caf\u00e9\U0001F600\u00e9"},
      {"Pid\n.", PyValue::persistent("id")},
      {"U\2hi.", "hi"},
      {"T\2\0\0\0hi."s, "hi"},
      {"U\1\xff.", PyValue::bytes("\xff")},
      {"C\1\xff.", PyValue::bytes("\xff")},
      {"B\1\0\0\0\xff."s, PyValue::bytes("\xff")},
      {"\x8e\1\0\0\0\0\0\0\0\xff."s, PyValue::bytes("\xff")},
      {"\x8d\1\0\0\0\0\0\0\0z."s, "z"},
      {"\x8c\1z.", "z"},
      {"\x8a\0."s, 0},
      {"\x8a\2\xff\xff.", -1},
      {"\x8b\2\0\0\0\xff\x7f."s, 0x7fff},
      {"(I1\nI2\nl.", PyValue::list({1, 2})},
      {"(K\1K\2t.", PyValue::tuple({1, 2})},
      {"(K\1Nd.", PyValue::dict({{1, PyValue()}})},
      {"}NK\1s.", PyValue::dict({{PyValue(), 1}})},
      {"\x8f(K\1K\2\x90.", PyValue::set({1, 2})},
      {"(K\1\x91.",
       PyValue::call(PyValue::global("__builtin__", "frozenset"), {PyValue::list({1})})},
      {"\x96\1\0\0\0\0\0\0\0\xff."s,
       PyValue::call(PyValue::global("__builtin__", "bytearray"), {PyValue::bytes("\xff")})},
      {"(cm\nC\nK\1o.", PyValue::call(PyValue::global("m", "C"), {1})},
      {"(K\1im\nC\n.", PyValue::call(PyValue::global("m", "C"), {1})},
      {"\x8c\1m\x8c\1C\x93.", PyValue::global("m", "C")},
      {"N2\x86.", twice},
      {"K\1K\2"
       "0.",
       1},
      {"K\1(K\2"
       "1.",
       1},
      {"K\1(0.", 1},
      {"]q\5K\1ah\5\x86.", PyValue::tuple({PyValue::list({1}), PyValue::list({1})})},
      {"Nr\1\0\0\0j\1\0\0\0\x86."s, twice},
      {"Np7\ng7\n\x86.", twice},
      {"N\x94h\0\x86."s, twice},
      {"c_codecs\nencode\nX\2\0\0\0\xc3\xbfX\6\0\0\0latin1\x86R."s, PyValue::bytes("\xff")},
      {"c__builtin__\nbytes\n)R.", PyValue::bytes("")},
      {"cbuiltins\nset\n)R.", PyValue::set()},
      {"cbuiltins\nset\n]\x85R.", PyValue::set()}};
  for (const auto& [stream, expected] : cases)
    EXPECT_EQ(read(stream), expected) << testing::PrintToString(stream);
}

TEST(PickleReader, ObjectsRememberHowTheyWereBuilt) {
  const PyValue value = read("\x80\4cos\nsystem\nX\4\0\0\0true\x85R}X\1\0\0\0aK\1sb."s);
  ASSERT_TRUE(value.is_object("os", "system"));  // named, never called
  EXPECT_FALSE(value.by_newobj());
  EXPECT_EQ(value.args(), std::vector<PyValue>{"true"});
  EXPECT_EQ(*value.find("a"), PyValue(1));
  EXPECT_EQ(read("cm\nC\n)}\x92."s).kwargs()->kind(), Kind::dict);
  EXPECT_TRUE(read("cm\nC\n)\x81.").by_newobj());
  const PyValue ordered = read("ccollections\nOrderedDict\n)RX\1\0\0\0kNs]X\1\0\0\0ia0."s);
  EXPECT_TRUE(ordered.find("k")->is_none());
  EXPECT_EQ(read("cm\nC\n)\x81K\1a.").appended(), std::vector<PyValue>{1});
}

TEST(PickleReader, TellsWhereItStopped) {
  Allowance allowance(0);
  std::size_t consumed = 0;
  EXPECT_EQ(read_pickle(as_bytes("K\1.K\2."), "p", allowance, &consumed), PyValue(1));
  EXPECT_EQ(consumed, 3u);
  EXPECT_NE(error_of([] { read("K\1.K\2."); }).find("3 bytes before the end"), std::string::npos);
}

TEST(PickleReader, WrongTypesAreNamed) {
  const PyValue value = PyValue::dict({{"a", "text"}});
  EXPECT_EQ(error_of([&] { value.at("a", "x.pt").as_integer("x.pt: a"); }),
            "x.pt: a: is a str, expected an int");
  EXPECT_EQ(error_of([&] { value.at("b", "x.pt"); }), "x.pt: has no `b`");
}

// --- Hostile streams
// ------------------------------------------------------------------------------

TEST(PickleReader, RefusesMalformedStreams) {
  const std::vector<std::string> streams = {
      "",
      ".",
      "(.",
      "K",
      "\x80\6N.",
      "\x82\1.",
      "\xff.",
      "0.",
      "1.",
      "2.",
      "t.",
      "e.",
      "u.",
      "h\1.",
      "g9\n.",
      "gx\n.",
      "a.",
      "Na.",
      "NNa.",
      "(NNNu.",
      "}(NNNu.",
      "N(Nu.",
      "NNs.",
      "NN\x93.",
      "\x8c\1a\x8c\2b\nc\x93.",
      "\x8c\1aN\x93.",
      "NNR.",
      "cm\nC\nNR.",
      "cm\nC\n]\x81.",
      "cm\nC\n)N\x92.",
      "(o.",
      "NNb.",
      "]}b.",
      "cm\nC",
      "cm",
      "I\n.",
      "Ix\n.",
      "I99999999999999999999\n.",
      "F\n.",
      "S'a\n.",
      "Sab\n.",
      "S'a\\q'\n.",
      "S'\\x4'\n.",
      "S'\\'\n.",
      "S'\\xzz'\n.",
      "V\\u12\n.",
      "V\\ud800\n.",
      "V\\U00110000\n.",
      "V\\uzzzz\n.",
      "Q.",
      "c_codecs\nencode\nNN\x86R.",
      "(c_codecs\nencode\n)R.",
      "c_codecs\nencode\nX\3\0\0\0\xe4\xb8\xadX\6\0\0\0latin1\x86R."s,
      "N(.\n0",
      "]\x85\x85\x94(N"};
  for (const std::string& stream : streams)
    EXPECT_NE(error_of([&] { read(stream); }), "") << testing::PrintToString(stream);
}

TEST(PickleReader, SizesAreComparedWithTheBytesLeft) {
  const std::size_t before = test::peak_memory();
  for (const char* opcode : {"X", "T", "B", "\x8b"})
    EXPECT_NE(error_of([&] { read(opcode + "\xff\xff\xff\x7f."s); }), "");
  for (const char* opcode : {"\x8d", "\x8e", "\x95", "\x96"})
    EXPECT_NE(error_of([&] { read(opcode + "\xff\xff\xff\xff\xff\xff\xff\xff."s); }), "");
  EXPECT_NE(error_of([&] {
              read(
                  "Nr\xff\xff\xff\xff"
                  "j\xff\xff\xff\xfe.");
            }),
            "");
  EXPECT_LT(test::peak_memory() - before, 8u << 20);
}

TEST(PickleReader, NestingIsBounded) {
  const auto nested = [](int depth) { return ")"s + std::string(depth - 1, '\x85') + "."; };
  EXPECT_EQ(write_pickle(read(nested(kMaxPickleNesting))).size(), kMaxPickleNesting + 3u);
  for (const int depth : {kMaxPickleNesting + 1, 60'000})
    EXPECT_NE(error_of([&] { read(nested(depth)); }).find("deep"), std::string::npos);
  // A deep value that the result does not hold, and one that is left when the stream fails.
  EXPECT_EQ(read(")"s + std::string(60'000, '\x85') + "0N."), PyValue());
  EXPECT_NE(error_of([&] { read(")"s + std::string(60'000, '\x85')); }), "");
  // Each list is put into the one before it, so no node is deep when it is made.
  std::string lists = "]q\1q\2";
  for (int i = 0; i < 60'000; ++i)
    lists +=
        "h\2]q\3"
        "a0h\3q\2"
        "0";
  EXPECT_NE(error_of([&] { read(lists + "."); }).find("deep"), std::string::npos);
}

TEST(PickleReader, ValuesAreBounded) {
  const std::size_t before = test::peak_memory();
  const std::string many(1'000'000, ']');
  for (const std::string& stream : {many + std::string(999'999, 'a') + ".", "](" + many + "e.",
                                    "(" + many + "t.", std::string(1'000'000, '(')})
    EXPECT_NE(error_of([&] { read(stream); }), "");
  EXPECT_LT(test::peak_memory() - before, 64u << 20);
}

TEST(PickleReader, CyclesAreRefused) {
  EXPECT_NE(error_of([] { read("]q\1h\1a."); }).find("itself"), std::string::npos);
  EXPECT_NE(error_of([] { read("}q\1Nh\1s."); }).find("itself"), std::string::npos);
  EXPECT_NE(error_of([] {
              read(
                  "cm\nC\n)\x81q\1h\1\x85"
                  "b.");
            }).find("itself"),
            std::string::npos);
  EXPECT_EQ(read("]q\1h\1a0N."), PyValue());
}

TEST(PickleReader, RepetitionIsBounded) {  // each tuple holds the one before twice: 2^60 leaves
  std::string stream = ")";
  for (int i = 0; i < 60; ++i) stream += "2\x86";
  EXPECT_NE(error_of([&] { read(stream + "."); }).find("without limit"), std::string::npos);
  // One long string made into bytes many times.
  std::string copies =
      "c_codecs\nencode\nq\1X\0\0\1\0"s + std::string(65536, 'a') + "X\6\0\0\0latin1\x86q\2R"s;
  for (int i = 0; i < 100'000; ++i) copies += "0h\1h\2R";
  const std::size_t before = test::peak_memory();
  EXPECT_NE(error_of([&] { read(copies + "."); }).find("takes more memory"), std::string::npos);
  EXPECT_LT(test::peak_memory() - before, 64u << 20);
}

TEST(PickleReader, EveryTruncationIsAnError) {
  const std::string stream = read_file(test::testdata("mcore/.metadata"));
  for (std::size_t length = 0; length < stream.size(); ++length)
    EXPECT_NE(error_of([&] { read(stream.substr(0, length)); }), "") << length;
}

// With sanitizers one of each byte's, the next byte's next.
TEST(PickleReader, EveryFlippedBitIsAnErrorOrAValue) {
#ifdef MT_SANITIZE_ADDRESSES
  constexpr std::size_t kStep = 9;
#else
  constexpr std::size_t kStep = 1;
#endif
  const std::string stream = read_file(test::testdata("dcp/.metadata"));
  std::size_t errors = 0;
  for (std::size_t bit = 0; bit < stream.size() * 8; bit += kStep) {
    std::string flipped = stream;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    errors += error_of([&] { read(flipped); }) != "";
  }
  EXPECT_GT(errors, 1000 / kStep);
}

TEST(PickleText, Escapes) {
  EXPECT_EQ(unquote_python("'a\\\\\\t\\r\\\"'"), "a\\\t\r\"");
  EXPECT_EQ(unquote_python("\"it's\""), "it's");
  EXPECT_EQ(unquote_python("'"), std::nullopt);
  EXPECT_EQ(decode_raw_unicode("\\x\\"), "\\x\\");
}

}  // namespace
}  // namespace mt

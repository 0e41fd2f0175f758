#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>

#include "engine/context/context.hpp"
#include "engine/runtime/bytes.hpp"
#include "engine/runtime/error.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {
namespace {

using std::string_view;

/// A CPU and ISA.
struct TuningFor {
  std::string_view cpu, isa;
};

constexpr std::int64_t kMostSize = std::int64_t{1} << 40;  // as sizes of problems
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr string_view kBlanks = " \t\r";

/// How a condition's value is written.
enum class Words { kNumbers, kTypes, kNoYes };

struct Condition {
  string_view name;
  std::int64_t TuningKey::*field;
  Words words;
};
constexpr Condition kConditions[] = {
    {"key", &TuningKey::key, Words::kTypes},
    {"value", &TuningKey::value, Words::kTypes},
    {"features", &TuningKey::features, Words::kNumbers},
    {"value_features", &TuningKey::value_features, Words::kNumbers},
    {"rows", &TuningKey::rows, Words::kNumbers},
    {"keys", &TuningKey::keys, Words::kNumbers},
    {"heads", &TuningKey::heads, Words::kNumbers},
    {"threads", &TuningKey::threads, Words::kNumbers},
    {"causal", &TuningKey::causal, Words::kNoYes}};

/// The word of a number, nullptr past the last.
const char* word(Words words, std::int64_t number) {
  constexpr const char* kNoYes[] = {"no", "yes"};
  constexpr auto kLast = static_cast<std::int64_t>(ElementType::kF8E4M3);
  if (words == Words::kNoYes) return number < 2 ? kNoYes[number] : nullptr;
  return number <= kLast ? name_of(static_cast<ElementType>(number)) : nullptr;
}

/// As much of a file's text as a message shows, for "%.*s".
int shown(string_view text) { return static_cast<int>(std::min<std::size_t>(text.size(), 40)); }

/// Takes a line, or a word of one, off the front of the text, with the character that ends it.
string_view take(string_view& text, string_view ends) {
  const string_view taken = text.substr(0, text.find_first_of(ends));
  text.remove_prefix(std::min(taken.size() + 1, text.size()));
  return taken;
}

string_view take_word(string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  return take(line, kBlanks);
}

/// Takes a number off the front; 0 if there is none up to `most`.
std::int64_t take_number(string_view& text, std::int64_t most) {
  std::int64_t number = 0;
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1))
    number = std::min(10 * number + (text[0] - '0'), most + 1);
  return number > most ? 0 : number;
}

/// "name=value"; no name if the line ends.
struct Item {
  string_view name, value;
};

Item take_item(string_view& line) {
  const string_view text = take_word(line);
  const std::size_t sign = text.find('=');
  if (text.empty()) return {};
  if (sign == string_view::npos || sign == 0 || sign + 1 == text.size())
    fail(HEED_STATUS_CORRUPT, "it has \"%.*s\"; it must be NAME=VALUE", shown(text), text.data());
  return {text.substr(0, sign), text.substr(sign + 1)};
}

[[noreturn]] void refuse_value(const Item& item, const char* must_be) {
  fail(HEED_STATUS_CORRUPT, "%.*s is \"%.*s\"; it must be %s", shown(item.name), item.name.data(),
       shown(item.value), item.value.data(), must_be);
}

void check_given_once(const Item& item, bool given) {
  if (given) fail(HEED_STATUS_CORRUPT, "%.*s is given twice", shown(item.name), item.name.data());
}

void read_tile(const Item& item, std::uint32_t& tile) {
  check_given_once(item, tile != 0);
  string_view rest = item.value;
  tile = static_cast<std::uint32_t>(take_number(rest, kMaxTile));
  static_assert(kMaxTile == 65536, "is in the message");
  if (tile == 0 || !rest.empty()) refuse_value(item, "a whole number from 1 to 65536");
}

void read_range(const Item& item, std::int64_t& least, std::int64_t& most) {
  string_view rest = item.value;
  least = most = take_number(rest, kMostSize);
  if (!rest.empty() && rest[0] == '-') {
    rest.remove_prefix(1);
    most = take_number(rest, kMostSize);
  }
  if (least == 0 || most < least || !rest.empty())
    refuse_value(item, "a whole number from 1 to 2^40, or two with a - between");
}

void read_condition(const Item& item, TunedTiles& tiles) {
  const auto* const condition =
      std::find_if(std::begin(kConditions), std::end(kConditions),
                   [&](const Condition& known) { return item.name == known.name; });
  Text choices;
  if (condition == std::end(kConditions)) {
    for (const Condition& known : kConditions) choices.add_item(known.name.data());
    fail(HEED_STATUS_CORRUPT, "it has \"%.*s=\"; the name must be tile_q, tile_kv, %s",
         shown(item.name), item.name.data(), choices.c_str());
  }
  std::int64_t& least = tiles.least.*condition->field;
  std::int64_t& most = tiles.most.*condition->field;
  check_given_once(item, most != kAny);
  if (condition->words == Words::kNumbers) return read_range(item, least, most);
  for (std::int64_t i = 0; const char* const name = word(condition->words, i); ++i) {
    choices.add_item(name);
    if (item.value == name) least = most = i;
  }
  if (most == kAny) refuse_value(item, choices.c_str());
}

TunedTiles read_tiles(string_view line) {
  TunedTiles tiles{};
  for (const Condition& condition : kConditions) tiles.most.*condition.field = kAny;
  for (Item item = take_item(line); !item.name.empty(); item = take_item(line)) {
    if (item.name == "tile_q") {
      read_tile(item, tiles.tile_q);
    } else if (item.name == "tile_kv") {
      read_tile(item, tiles.tile_kv);
    } else {
      read_condition(item, tiles);
    }
  }
  if (tiles.tile_q == 0 && tiles.tile_kv == 0)
    fail(HEED_STATUS_CORRUPT, "it has neither tile_q nor tile_kv");
  return tiles;
}

TuningFor read_section(string_view line) {
  const Item cpu = take_item(line);
  const Item isa = take_item(line);
  if (isa.name != "isa" || !take_word(line).empty())
    fail(HEED_STATUS_CORRUPT, "it has \"cpu=%.*s\"; isa=NAME must follow, and nothing else",
         shown(cpu.value), cpu.value.data());
  return {cpu.value, isa.value};
}

void read_version(string_view line) {
  const string_view format = take_word(line);
  const string_view version = take_word(line);
  const string_view more = take_word(line);
  if (format != "heed-tuning")
    fail(HEED_STATUS_CORRUPT, "it begins with \"%.*s\"; it must be \"heed-tuning 1\"",
         shown(format), format.data());
  if (version != "1")
    fail(HEED_STATUS_UNSUPPORTED, "the version is \"%.*s\"; this library reads 1", shown(version),
         version.data());
  if (!more.empty())
    fail(HEED_STATUS_CORRUPT, "it goes on with \"%.*s\"; it must be \"heed-tuning 1\"", shown(more),
         more.data());
}

/// Refuses bytes that could steer a terminal that a message is printed on.
void check_characters(string_view line) {
  for (const char c : line)
    if ((c < ' ' || c > '~') && kBlanks.find(c) == string_view::npos)
      fail(HEED_STATUS_CORRUPT, "it has the byte 0x%02x; it must be ASCII text",
           static_cast<unsigned char>(c));
}

/// The line without blanks in front and without the comment that a # begins.
string_view without_comment(string_view line) {
  line = line.substr(0, line.find('#'));
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  return line;
}

/// How many lines of the text give tiles for these; they go to `tiles` unless it is nullptr. All
/// lines are checked.
std::int64_t read_lines(string_view text, const TuningFor& here, TunedTiles* tiles) {
  std::int64_t count = 0;
  TuningFor section;
  TuningFor other = {"none", "none"};
  bool found = false;
  const auto is_here = [&] { return section.cpu == here.cpu && section.isa == here.isa; };
  const auto read_line = [&](string_view line, std::uint32_t number) {
    check_characters(line);
    line = without_comment(line);
    if (number == 1) return read_version(line);
    if (line.empty()) return;
    if (line.substr(0, 4) == "cpu=") {
      section = read_section(line);
      found = found || is_here();
      if (!is_here()) other = section;
      return;
    }
    if (section.cpu.empty())
      fail(HEED_STATUS_CORRUPT, "a line cpu=NAME isa=NAME must come before it");
    TunedTiles read = read_tiles(line);
    read.line = number;
    if (!is_here()) return;
    if (tiles != nullptr) tiles[count] = read;
    ++count;
  };
  for (std::uint32_t number = 1; number == 1 || !text.empty(); ++number) {
    Text where;
    where.add("line %u", number);
    within(where.c_str(), [&] { read_line(take(text, "\n"), number); });
  }
  if (!found)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "it is for cpu=%.*s isa=%.*s; it must be for this one, cpu=%.*s isa=%.*s",
         shown(other.cpu), other.cpu.data(), shown(other.isa), other.isa.data(), shown(here.cpu),
         here.cpu.data(), shown(here.isa), here.isa.data());
  return count;
}

/// Whether the tiles are for such problems.
bool covers(const TunedTiles& tiles, const TuningKey& key) {
  return std::all_of(std::begin(kConditions), std::end(kConditions), [&](const Condition& c) {
    return tiles.least.*c.field <= key.*c.field && key.*c.field <= tiles.most.*c.field;
  });
}

constexpr std::int64_t kMostBytes = std::int64_t{1} << 16;

/// Opening a file does not wait, whatever it is, and no other program inherits it.
#if defined(_WIN32)
constexpr int kToRead = O_RDONLY | O_BINARY | O_NOINHERIT;
#else
constexpr int kToRead = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
#endif

class OpenFile {
 public:
  explicit OpenFile(const char* path) : descriptor_(open(path, kToRead)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

Array<char> contents(const heed_allocator& allocator, const char* path) {
  const OpenFile opened(path);
  struct stat status {};
  if (opened.descriptor() < 0 || fstat(opened.descriptor(), &status) != 0)
    fail(HEED_STATUS_IO, "opening it failed: %s", std::system_category().message(errno).c_str());
  if (!S_ISREG(status.st_mode)) fail(HEED_STATUS_INVALID_ARGUMENT, "it must be a regular file");
  if (status.st_size > kMostBytes)
    fail(HEED_STATUS_CORRUPT, "it has %lld bytes; it must have at most %lld", lld(status.st_size),
         lld(kMostBytes));
  Array<char> bytes(allocator, status.st_size);
  auto* const to = reinterpret_cast<std::byte*>(bytes.data());
  std::size_t have = 0;
  std::size_t got = 1;
  for (; have < bytes.size() && got > 0; have += got)
    got = read_some(opened.descriptor(), to + have, bytes.size() - have);
  if (have < bytes.size()) fail(HEED_STATUS_IO, "it became shorter while it was read");
  return bytes;
}

}  // namespace

TunedTiles Tuning::find(const TuningKey& key) const {
  for (std::size_t i = 0; i < tiles.size(); ++i)
    if (covers(tiles.data()[i], key)) return tiles.data()[i];
  return {};
}

Tuning read_tuning(const heed_allocator& allocator, const char* path, const char* source,
                   const CpuName& cpu, const char* isa) {
  try {
    const TuningFor here = {cpu.text, isa};
    const Array<char> bytes = contents(allocator, path);
    const std::string_view text(bytes.data(), bytes.size());
    Tuning tuning;
    tuning.tiles = Array<TunedTiles>(allocator, read_lines(text, here, nullptr));
    (void)read_lines(text, here, tuning.tiles.data());
    const std::size_t path_bytes = std::strlen(path) + 1;
    tuning.path = Array<char>(allocator, static_cast<std::int64_t>(path_bytes));
    std::memcpy(tuning.path.data(), path, path_bytes);
    return tuning;
  } catch (const Error& error) {
    if (error.status == HEED_STATUS_OUT_OF_MEMORY) throw;
    fail(error.status, "%s is \"%.80s\"; %s", source, path, error.message);
  }
}

}  // namespace heed

// What rows share, so that it is made once.
#pragma once

#include <algorithm>
#include <list>
#include <memory>
#include <string>
#include <utility>

namespace heed::perf {

/// What make() returns, a T, under a name. The latest `count` stay, since rows of the same workload
/// follow each other; all of them at once would fill small machines, so an older one is freed
/// before another is made.
template <class T, std::size_t count = 1, class Make>
std::shared_ptr<T> kept(const std::string& name, Make&& make) {
  static std::list<std::pair<std::string, std::shared_ptr<T>>> latest;
  const auto found = std::find_if(latest.begin(), latest.end(),
                                  [&](const auto& one) { return one.first == name; });
  if (found != latest.end()) {
    latest.splice(latest.begin(), latest, found);
  } else {
    if (latest.size() == count) latest.pop_back();
    latest.emplace_front(name, std::shared_ptr<T>(new T(make())));
  }
  return latest.front().second;
}

}  // namespace heed::perf

// The folder of prepared files: names by key, one builder at a time, nothing half-written is ever seen.
#pragma once

#include <comera/base/json.h>
#include <comera/data/dataset.h>
#include <comera/data/prepare.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace comera::data {

/// Opens the prepared files that belong to `key`, one for each of `sides` (their file names are
/// kind-side-hash of key). When one is absent, damaged or of another key, `build` is called with a writer for
/// each side, under a lock that holds other builders in the folder off, and the JSON it returns is stored as
/// their descriptions.
std::vector<Dataset> cached(const PrepareOptions& options, const std::string& kind,
                            const std::vector<std::string>& sides, const Json& key,
                            const std::function<Json(std::vector<DatasetWriter>&)>& build);

}  // namespace comera::data

/* A build without the web UI. */
#include "server/web_assets.h"

const struct web_page web_page = {0};
const struct web_viewer web_viewer = {0};
const struct web_asset web_assets[] = {{0}};

#include "formats/formats.h"

const struct format format_collapsed = {
    .name = "collapsed",
    .title = "collapsed stacks",
    .extension = ".collapsed",
};

#include "formats/otlp_schema.h"

#include "base/cleanup.h"
#include "formats/otlp_internal.h"

#define SCHEMA(name, ...)                                                                          \
    static const struct otlp_schema_field name##_fields[] = {__VA_ARGS__};                         \
    static const struct otlp_schema name = {name##_fields, ARRAY_SIZE(name##_fields)}

#define ONE(text, number, kind)                                                                    \
    {                                                                                              \
        (text), (number), (kind), false, false, NULL                                               \
    }
#define MANY(text, number, kind)                                                                   \
    {                                                                                              \
        (text), (number), (kind), true, false, NULL                                                \
    }
#define MESSAGE(text, number, schema)                                                              \
    {                                                                                              \
        (text), (number), OTLP_MESSAGE, false, false, &(schema)                                    \
    }
#define MESSAGES(text, number, schema)                                                             \
    {                                                                                              \
        (text), (number), OTLP_MESSAGE, true, false, &(schema)                                     \
    }
#define OLD(text, number, kind)                                                                    \
    {                                                                                              \
        (text), (number), (kind), false, true, NULL                                                \
    }
#define OLD_MANY(text, number, kind)                                                               \
    {                                                                                              \
        (text), (number), (kind), true, true, NULL                                                 \
    }

/* Attribute values nest, so their messages refer to each other. */
static const struct otlp_schema any_value;

SCHEMA(array_value, MESSAGES("values", 1, any_value));

SCHEMA(key_value, ONE("key", 1, OTLP_STRING), MESSAGE("value", 2, any_value),
       ONE("keyStrindex", 3, OTLP_INT32));

SCHEMA(key_value_list, MESSAGES("values", 1, key_value));

static const struct otlp_schema_field any_value_fields[] = {
    ONE("stringValue", 1, OTLP_STRING),    ONE("boolValue", 2, OTLP_BOOL),
    ONE("intValue", 3, OTLP_INT),          ONE("doubleValue", 4, OTLP_DOUBLE),
    MESSAGE("arrayValue", 5, array_value), MESSAGE("kvlistValue", 6, key_value_list),
    ONE("bytesValue", 7, OTLP_BYTES),      ONE("stringValueStrindex", 8, OTLP_INT32),
};
static const struct otlp_schema any_value = {any_value_fields, ARRAY_SIZE(any_value_fields)};

SCHEMA(entity_ref, ONE("schemaUrl", 1, OTLP_STRING), ONE("type", 2, OTLP_STRING),
       MANY("idKeys", 3, OTLP_STRING), MANY("descriptionKeys", 4, OTLP_STRING));

SCHEMA(resource, MESSAGES("attributes", 1, key_value), ONE("droppedAttributesCount", 2, OTLP_INT32),
       MESSAGES("entityRefs", 3, entity_ref));

SCHEMA(scope, ONE("name", 1, OTLP_STRING), ONE("version", 2, OTLP_STRING),
       MESSAGES("attributes", 3, key_value), ONE("droppedAttributesCount", 4, OTLP_INT32));

SCHEMA(value_type, ONE("typeStrindex", 1, OTLP_INT32), ONE("unitStrindex", 2, OTLP_INT32),
       ONE("aggregationTemporality", 3, OTLP_TEMPORALITY));

SCHEMA(sample, ONE("stackIndex", SAMPLE_STACK, OTLP_INT32),
       MANY("attributeIndices", SAMPLE_ATTRIBUTES, OTLP_INT32),
       ONE("linkIndex", SAMPLE_LINK, OTLP_INT32), MANY("values", SAMPLE_VALUES, OTLP_INT),
       MANY("timestampsUnixNano", SAMPLE_TIMES, OTLP_FIXED64),
       OLD_MANY("value", SAMPLE_VALUES, OTLP_INT),
       OLD("locationsStartIndex", SAMPLE_START, OTLP_INT32),
       OLD("locationsLength", SAMPLE_LENGTH, OTLP_INT32));

SCHEMA(profile, MESSAGE("sampleType", PROFILE_SAMPLE_TYPE, value_type),
       MESSAGES("samples", PROFILE_SAMPLES, sample),
       ONE("timeUnixNano", PROFILE_TIME, OTLP_FIXED64),
       ONE("durationNano", PROFILE_DURATION, OTLP_UINT),
       MESSAGE("periodType", PROFILE_PERIOD_TYPE, value_type),
       ONE("period", PROFILE_PERIOD, OTLP_INT), ONE("profileId", PROFILE_ID, OTLP_ID16),
       ONE("droppedAttributesCount", PROFILE_DROPPED, OTLP_INT32),
       ONE("originalPayloadFormat", PROFILE_FORMAT, OTLP_STRING),
       ONE("originalPayload", PROFILE_PAYLOAD, OTLP_BYTES),
       MANY("attributeIndices", PROFILE_ATTRIBUTES, OTLP_INT32),
       MESSAGES("sample", PROFILE_SAMPLES, sample),
       MANY("commentStrindices", PROFILE_COMMENTS, OTLP_INT32),
       OLD("timeNanos", PROFILE_TIME, OTLP_FIXED64),
       OLD("durationNanos", PROFILE_DURATION, OTLP_UINT),
       OLD("defaultSampleTypeIndex", PROFILE_DEFAULT_TYPE, OTLP_INT32),
       OLD_MANY("locationIndices", PROFILE_LOCATION_INDICES, OTLP_INT32));

SCHEMA(scope_profiles, MESSAGE("scope", 1, scope), MESSAGES("profiles", 2, profile),
       ONE("schemaUrl", 3, OTLP_STRING));

SCHEMA(resource_profiles, MESSAGE("resource", 1, resource),
       MESSAGES("scopeProfiles", 2, scope_profiles), ONE("schemaUrl", 3, OTLP_STRING));

SCHEMA(mapping, ONE("memoryStart", MAPPING_START, OTLP_UINT),
       ONE("memoryLimit", MAPPING_LIMIT, OTLP_UINT), ONE("fileOffset", MAPPING_OFFSET, OTLP_UINT),
       ONE("filenameStrindex", MAPPING_FILE, OTLP_INT32),
       MANY("attributeIndices", MAPPING_ATTRIBUTES, OTLP_INT32),
       OLD("hasFunctions", MAPPING_HAS_FUNCTIONS, OTLP_BOOL),
       OLD("hasFilenames", MAPPING_HAS_FILENAMES, OTLP_BOOL),
       OLD("hasLineNumbers", MAPPING_HAS_LINE_NUMBERS, OTLP_BOOL),
       OLD("hasInlineFrames", MAPPING_HAS_INLINE_FRAMES, OTLP_BOOL));

SCHEMA(line, ONE("functionIndex", 1, OTLP_INT32), ONE("line", 2, OTLP_INT),
       ONE("column", 3, OTLP_INT));

SCHEMA(location, ONE("mappingIndex", LOCATION_MAPPING, OTLP_INT32),
       ONE("address", LOCATION_ADDRESS, OTLP_UINT), MESSAGES("lines", LOCATION_LINES, line),
       MANY("attributeIndices", LOCATION_ATTRIBUTES, OTLP_INT32),
       MESSAGES("line", LOCATION_LINES, line), OLD("isFolded", LOCATION_FOLDED, OTLP_BOOL));

SCHEMA(function, ONE("nameStrindex", 1, OTLP_INT32), ONE("systemNameStrindex", 2, OTLP_INT32),
       ONE("filenameStrindex", 3, OTLP_INT32), ONE("startLine", 4, OTLP_INT));

SCHEMA(span_link, ONE("traceId", 1, OTLP_ID16), ONE("spanId", 2, OTLP_ID8));

SCHEMA(attribute, ONE("keyStrindex", 1, OTLP_INT32), MESSAGE("value", 2, any_value),
       ONE("unitStrindex", 3, OTLP_INT32), OLD("key", ATTRIBUTE_INLINE_KEY, OTLP_STRING));

SCHEMA(attribute_unit, ONE("attributeKeyStrindex", 1, OTLP_INT32),
       ONE("unitStrindex", 2, OTLP_INT32));

SCHEMA(stack, MANY("locationIndices", 1, OTLP_INT32));

SCHEMA(dictionary, MESSAGES("mappingTable", DICTIONARY_MAPPINGS, mapping),
       MESSAGES("locationTable", DICTIONARY_LOCATIONS, location),
       MESSAGES("functionTable", DICTIONARY_FUNCTIONS, function),
       MESSAGES("linkTable", DICTIONARY_LINKS, span_link),
       MANY("stringTable", DICTIONARY_STRINGS, OTLP_STRING),
       MESSAGES("attributeTable", DICTIONARY_ATTRIBUTES, attribute),
       MESSAGES("stackTable", DICTIONARY_STACKS, stack),
       MESSAGES("attributeUnits", DICTIONARY_UNITS, attribute_unit));

static const struct otlp_schema_field root_fields[] = {
    MESSAGES("resourceProfiles", 1, resource_profiles),
    MESSAGE("dictionary", 2, dictionary),
};
const struct otlp_schema otlp_schema_root = {root_fields, ARRAY_SIZE(root_fields)};

#define NAME_MAX_BYTES 32

/* snake_case to camelCase; anything longer than every name stays unknown. */
static struct bytes camel_case(struct bytes name, uint8_t *to)
{
    size_t n = 0;
    bool upper = false;

    for (size_t i = 0; i < name.len && n < NAME_MAX_BYTES; i++) {
        uint8_t c = name.data[i];
        if (c == '_') {
            upper = true;
            continue;
        }
        to[n++] = upper && c >= 'a' && c <= 'z' ? (uint8_t)(c - 'a' + 'A') : c;
        upper = false;
    }
    return (struct bytes){to, n};
}

const struct otlp_schema_field *otlp_schema_by_name(const struct otlp_schema *s, struct bytes name)
{
    uint8_t camel[NAME_MAX_BYTES];

    if (bytes_find_byte(name, '_'))
        name = camel_case(name, camel);
    for (size_t i = 0; i < s->n; i++) {
        if (bytes_are(name, s->fields[i].name))
            return &s->fields[i];
    }
    return NULL;
}

const struct otlp_schema_field *otlp_schema_by_number(const struct otlp_schema *s, uint32_t number)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->fields[i].number == number)
            return &s->fields[i];
    }
    return NULL;
}

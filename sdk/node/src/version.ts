// The name and version of this package. A test holds the version to package.json.

export const sdkName = "@vesta/node";
export const sdkVersion = "0.1.0";

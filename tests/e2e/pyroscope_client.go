// Asks a server everything that Grafana's data source and Profiles Drilldown ask, through the client
// that they use, and prints the answers as JSON: one object per method.
//
//	client URL connect|json|grpc START_MS END_MS PROFILE_TYPE SELECTOR SPAN
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"connectrpc.com/connect"
	capabilitiesv1 "github.com/grafana/pyroscope/api/gen/proto/go/capabilities/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/capabilities/v1/capabilitiesv1connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	settingsv1 "github.com/grafana/pyroscope/api/gen/proto/go/settings/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/settings/v1/settingsv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
	versionv1 "github.com/grafana/pyroscope/api/gen/proto/go/version/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/version/v1/versionv1connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

var answers = map[string]json.RawMessage{}

// Keeps an answer, or the code and text of an error.
func keep[T any](name string, reply *connect.Response[T], err error) {
	var text []byte
	if err != nil {
		var failed *connect.Error
		if !errors.As(err, &failed) {
			fmt.Fprintln(os.Stderr, name, err)
			os.Exit(1)
		}
		text, _ = json.Marshal(map[string]string{
			"code": failed.Code().String(), "message": failed.Message()})
	} else {
		text, err = protojson.Marshal(any(reply.Msg).(proto.Message))
		if err != nil {
			fmt.Fprintln(os.Stderr, name, err)
			os.Exit(1)
		}
	}
	answers[name] = text
}

func ask[Q, A any](name string, f func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), q *Q) {
	reply, err := f(context.Background(), connect.NewRequest(q))
	keep(name, reply, err)
}

func main() {
	url, protocol := os.Args[1], os.Args[2]
	start, _ := strconv.ParseInt(os.Args[3], 10, 64)
	end, _ := strconv.ParseInt(os.Args[4], 10, 64)
	id, selector, span := os.Args[5], os.Args[6], os.Args[7]

	client := &http.Client{}
	var options []connect.ClientOption
	switch protocol {
	case "json":
		options = append(options, connect.WithProtoJSON())
	case "grpc":
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		client.Transport = &http.Transport{Protocols: protocols}
		options = append(options, connect.WithGRPC())
	}
	c := querierv1connect.NewQuerierServiceClient(client, url, options...)

	ask("ProfileTypes", c.ProfileTypes, &querierv1.ProfileTypesRequest{Start: start, End: end})
	ask("LabelNames", c.LabelNames, &typesv1.LabelNamesRequest{
		Matchers: []string{selector}, Start: start, End: end})
	ask("LabelValues", c.LabelValues, &typesv1.LabelValuesRequest{
		Name: "service_name", Matchers: []string{"{}"}, Start: start, End: end})
	ask("Series", c.Series, &querierv1.SeriesRequest{
		LabelNames: []string{"service_name", "__profile_type__"}, Start: start, End: end})
	ask("SelectSeries", c.SelectSeries, &querierv1.SelectSeriesRequest{
		ProfileTypeID: id, LabelSelector: selector, Start: start, End: end, Step: 15,
		GroupBy: []string{"deployment_environment_name"}, Limit: proto.Int64(10)})
	nodes := int64(16384)
	ask("SelectMergeStacktraces", c.SelectMergeStacktraces, &querierv1.SelectMergeStacktracesRequest{
		ProfileTypeID: id, LabelSelector: selector, Start: start, End: end, MaxNodes: &nodes})
	ask("SelectMergeSpanProfile", c.SelectMergeSpanProfile, &querierv1.SelectMergeSpanProfileRequest{
		ProfileTypeID: id, LabelSelector: selector, Start: start, End: end,
		SpanSelector: []string{span}})
	ask("SelectMergeProfile", c.SelectMergeProfile, &querierv1.SelectMergeProfileRequest{
		ProfileTypeID: id, LabelSelector: selector, Start: start, End: end})
	ask("SelectHeatmap", c.SelectHeatmap, &querierv1.SelectHeatmapRequest{
		ProfileTypeID: id, LabelSelector: selector, Start: start, End: end, Step: 60,
		QueryType: querierv1.HeatmapQueryType_HEATMAP_QUERY_TYPE_INDIVIDUAL})
	one := &querierv1.SelectMergeStacktracesRequest{
		ProfileTypeID: id, LabelSelector: selector, Start: start, End: end}
	ask("Diff", c.Diff, &querierv1.DiffRequest{Left: one, Right: one})
	ask("GetProfileStats", c.GetProfileStats, &typesv1.GetProfileStatsRequest{})
	ask("AnalyzeQuery", c.AnalyzeQuery, &querierv1.AnalyzeQueryRequest{
		Start: start, End: end, Query: id + selector})
	ask("Mistake", c.SelectSeries, &querierv1.SelectSeriesRequest{
		ProfileTypeID: "nonsense", LabelSelector: selector, Start: start, End: end, Step: 15})
	ask("Nothing", c.SelectMergeStacktraces, &querierv1.SelectMergeStacktracesRequest{
		ProfileTypeID: id, LabelSelector: selector, Start: 1, End: 2})

	ask("Settings", settingsv1connect.NewSettingsServiceClient(client, url, options...).Get,
		&settingsv1.GetSettingsRequest{})
	ask("Version", versionv1connect.NewVersionClient(client, url, options...).Version,
		&versionv1.VersionRequest{})
	ask("Flags", capabilitiesv1connect.NewFeatureFlagsServiceClient(client, url, options...).GetFeatureFlags,
		&capabilitiesv1.GetFeatureFlagsRequest{})
	ask("Rules", settingsv1connect.NewRecordingRulesServiceClient(client, url, options...).ListRecordingRules,
		&settingsv1.ListRecordingRulesRequest{})

	out, _ := json.Marshal(answers)
	os.Stdout.Write(out)
}

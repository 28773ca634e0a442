// Administration: tokens, tenants, the audit log, erasing, and the server's own counters.

import { type Counter, parseCounters } from "../core/counters";
import { basePath, change, getJson, send } from "./client";

export interface Token {
    id: string;
    tenant: string;
    name: string;
    roles: string; // "ingest,read"
    created_ns: string;
    expires_ns: string; // "0": never
    revoked_ns: string; // "0": not
}

export async function askTokens(signal?: AbortSignal): Promise<Token[]> {
    return (await getJson<{ tokens: Token[] }>("admin/tokens", {}, { signal })).tokens;
}

export interface TokenWish {
    name: string;
    roles: string[];
    tenant?: string;
    expires_in?: string;
}

export function createToken(w: TokenWish): Promise<{ id: string; token: string; tenant: string }> {
    return change("POST", "admin/tokens", w);
}

export function revokeToken(id: string): Promise<unknown> {
    return change("DELETE", `admin/tokens/${encodeURIComponent(id)}`);
}

export interface Tenant {
    name: string;
    max_age: string; // "7d"; "0": the default
    max_span_age: string;
    max_bytes: number;
    bytes_per_second: number;
    profiles_per_second: number;
    series_max: number;
    queries_max: number;
}

export async function askTenants(signal?: AbortSignal): Promise<Tenant[]> {
    return (await getJson<{ tenants: Tenant[] }>("admin/tenants", {}, { signal })).tenants;
}

export function putTenant(name: string, t: Record<string, string | number>): Promise<Tenant> {
    return change("PUT", `admin/tenants/${encodeURIComponent(name)}`, t);
}

export interface AuditEvent {
    time: string;
    actor: string;
    peer: string;
    tenant: string;
    action: string;
    what: string;
}

export async function askAudit(limit: number, signal?: AbortSignal): Promise<AuditEvent[]> {
    return (await getJson<{ events: AuditEvent[] }>("admin/audit", { limit }, { signal })).events;
}

export interface EraseWish {
    query: string;
    from: string;
    until: string;
    confirm: boolean;
}

export function erase(w: EraseWish): Promise<{ profiles: number; erased: boolean }> {
    return change("POST", "admin/erase", w);
}

/** What the server counts, since it was started. */
export async function askCounters(signal?: AbortSignal): Promise<Counter[]> {
    return parseCounters(await (await send(`${basePath()}metrics`, { signal })).text());
}

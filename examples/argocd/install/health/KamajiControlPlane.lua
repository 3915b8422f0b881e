-- Health of a KamajiControlPlane (v1alpha2): Argo CD has no check for it. Ready stays true while its pods are replaced.
-- Argo CD runs this without Lua's string library.
local hs = {status = "Progressing", message = "no status yet"}
local status = obj.status
if obj.metadata.deletionTimestamp ~= nil then
  hs.message = "being deleted"
  return hs
end
if status == nil then
  return hs
end

local failed = ""
for _, c in ipairs(status.conditions or {}) do
  if c.type == "Paused" and c.status == "True" then
    hs.status = "Suspended"
    hs.message = "paused"
    return hs
  end
  if c.status == "False" and c.message ~= nil and c.message ~= "" and failed == "" then
    failed = c.type .. ": " .. c.message
  end
end

if (status.failureReason or "") ~= "" or (status.failureMessage or "") ~= "" then
  hs.status = "Degraded"
  hs.message = status.failureMessage or ""
  if hs.message == "" then
    hs.message = status.failureReason
  end
  return hs
end

local initialized = status.initialization ~= nil and status.initialization.controlPlaneInitialized
if not status.ready then
  if initialized then
    hs.status = "Degraded"
  end
  hs.message = failed ~= "" and failed or "not ready"
  return hs
end

local spec = obj.spec or {}
local is, want = status.version or "", spec.version or ""
if is ~= "" and want ~= "" and is ~= want and "v" .. is ~= want and is ~= "v" .. want then
  hs.message = "from " .. is .. " to " .. want
  return hs
end

local replicas = status.replicas or 0
if status.upToDateReplicas ~= nil and status.upToDateReplicas < replicas then
  hs.message = status.upToDateReplicas .. " of " .. replicas .. " pods are up to date"
  return hs
end
if status.readyReplicas ~= nil and status.readyReplicas == 0 and (spec.replicas == nil or spec.replicas > 0) then
  hs.status = "Degraded"
  hs.message = "no pod is ready"
  return hs
end

hs.status = "Healthy"
hs.message = "ready"
return hs

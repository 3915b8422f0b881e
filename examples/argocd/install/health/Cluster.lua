-- Health of a Cluster (v1beta2) by its conditions. Argo CD's own check reads the phase, which stays Provisioned while workers roll.
-- Argo CD runs this without Lua's string library.
local hs = {status = "Progressing", message = "no status yet"}
local status = obj.status or {}

local conditions = {}
for _, c in ipairs(status.conditions or {}) do
  conditions[c.type] = c
end

local function is(kind, value)
  return conditions[kind] ~= nil and conditions[kind].status == value
end

local function message(kind, otherwise)
  local c = conditions[kind]
  if c ~= nil and c.message ~= nil and c.message ~= "" then
    return c.message
  end
  return otherwise
end

if obj.metadata.deletionTimestamp ~= nil then
  hs.message = message("Deleting", "being deleted")
  return hs
end

if (obj.spec ~= nil and obj.spec.paused) or is("Paused", "True") then
  hs.status = "Suspended"
  hs.message = "paused: Cluster API changes nothing"
  return hs
end

if status.observedGeneration ~= nil and obj.metadata.generation ~= nil and status.observedGeneration < obj.metadata.generation then
  hs.message = "Cluster API has not seen the last change yet"
  return hs
end

-- A topology that does not reconcile is one that no later change reaches.
local topology = conditions["TopologyReconciled"]
if topology ~= nil and topology.status == "False" and topology.reason == "ReconcileFailed" then
  hs.status = "Degraded"
  hs.message = message("TopologyReconciled", "the topology does not reconcile")
  return hs
end

local available = conditions["Available"]
if available == nil then
  return hs
end

if available.status ~= "True" then
  local initialized = status.initialization ~= nil and status.initialization.controlPlaneInitialized
  if not initialized then
    hs.message = message("Available", "being created")
  elseif is("RollingOut", "True") then
    hs.message = message("RollingOut", "machines are being replaced")
  else
    hs.status = "Degraded"
    hs.message = message("Available", "not available")
  end
  return hs
end

if is("RollingOut", "True") then
  hs.message = message("RollingOut", "machines are being replaced")
  return hs
end

-- Held back on purpose is not a state to wait in; waiting for its turn is.
local deferred = {MachineDeploymentsUpgradeDeferred = true, MachinePoolsUpgradeDeferred = true}
if topology ~= nil and topology.status == "False" and not deferred[topology.reason or ""] then
  hs.message = message("TopologyReconciled", "a change is being worked on")
  return hs
end

hs.status = "Healthy"
hs.message = message("TopologyReconciled", "available")
return hs

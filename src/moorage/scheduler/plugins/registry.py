"""All plugins by name, in their default order and with their default weights."""

from __future__ import annotations

from moorage.scheduler.framework import Plugin
from moorage.scheduler.plugins.attachedrules import AttachedRules
from moorage.scheduler.plugins.defaultbinder import DefaultBinder
from moorage.scheduler.plugins.defaultpreemption import DefaultPreemption
from moorage.scheduler.plugins.dynamicresources import DynamicResources
from moorage.scheduler.plugins.imagelocality import ImageLocality
from moorage.scheduler.plugins.interpodaffinity import InterPodAffinity
from moorage.scheduler.plugins.nodeaffinity import NodeAffinity
from moorage.scheduler.plugins.nodename import NodeName
from moorage.scheduler.plugins.nodeports import NodePorts
from moorage.scheduler.plugins.noderesourcesbalancedallocation import NodeResourcesBalancedAllocation
from moorage.scheduler.plugins.noderesourcesfit import NodeResourcesFit
from moorage.scheduler.plugins.nodeunschedulable import NodeUnschedulable
from moorage.scheduler.plugins.nodevolumelimits import NodeVolumeLimits
from moorage.scheduler.plugins.podtopologyspread import PodTopologySpread
from moorage.scheduler.plugins.prioritysort import PrioritySort
from moorage.scheduler.plugins.schedulinggates import SchedulingGates
from moorage.scheduler.plugins.tainttoleration import TaintToleration
from moorage.scheduler.plugins.volumebinding import VolumeBinding
from moorage.scheduler.plugins.volumerestrictions import VolumeRestrictions
from moorage.scheduler.plugins.volumezone import VolumeZone

DEFAULTS: tuple[tuple[type[Plugin], int], ...] = (
    (SchedulingGates, 0),
    (PrioritySort, 0),
    (AttachedRules, 0),
    (NodeName, 0),
    (NodeUnschedulable, 0),
    (TaintToleration, 3),
    (NodeAffinity, 2),
    (NodePorts, 0),
    (NodeResourcesFit, 1),
    (VolumeRestrictions, 0),
    (NodeVolumeLimits, 0),
    (VolumeBinding, 0),
    (VolumeZone, 0),
    (PodTopologySpread, 2),
    (InterPodAffinity, 2),
    (DynamicResources, 2),
    (DefaultPreemption, 0),
    (NodeResourcesBalancedAllocation, 1),
    (ImageLocality, 1),
    (DefaultBinder, 0),
)

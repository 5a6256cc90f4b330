/** The server's HTTP interface. */

import type { Expense, MonthReport } from "./types";

const BASE_URL = "/api/v1";

export async function fetchMonth(year: number, month: number): Promise<MonthReport> {
  const response = await fetch(`${BASE_URL}/reports/${year}/${month}`);
  if (!response.ok) {
    throw new Error(`Could not load the report: ${response.status}`);
  }
  return response.json();
}

export async function addExpense(expense: Expense): Promise<void> {
  const response = await fetch(`${BASE_URL}/expenses`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(expense),
  });
  if (!response.ok) {
    throw new Error(`Could not save the expense: ${response.status}`);
  }
}

export async function deleteExpense(id: string): Promise<void> {

}

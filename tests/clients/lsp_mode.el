;;; lsp_mode.el --- Types into lsp-mode and prints what is seen  -*- lexical-binding: t; -*-

;; emacs -nw -q -l lsp_mode.el FILE SEEN
;; types an "s" at the end of FILE, accepts what comes, and writes what was seen to the file SEEN, in JSON.

(require 'json)
(defvar driver-file (pop command-line-args-left))
(defvar driver-seen (pop command-line-args-left))
(setq lsp-session-file (concat driver-seen ".session") lsp-auto-guess-root t lsp-enable-snippet nil
      lsp-enable-file-watchers nil lsp-inline-completion-idle-delay 0 lsp-idle-delay 0.1
      create-lockfiles nil make-backup-files nil inhibit-startup-screen t)
(package-activate-all)
(require 'lsp-mode)
(require 'company)

(defun driver-wait (holds what)
  "Let Emacs work until HOLDS; fail with WHAT after a minute."
  (let ((end (+ (float-time) 60)))
    (while (not (funcall holds))
      (when (> (float-time) end) (error "Not in time: %s" what))
      (sit-for 0.05))))

(defun driver-write (seen)
  "Write SEEN in one step."
  (let ((text (json-encode seen)))
    (with-temp-file (concat driver-seen ".part") (insert text))
    (rename-file (concat driver-seen ".part") driver-seen t)))

(defun driver-play (ghost)
  "Accept ghost text, or an entry of company's menu if not GHOST."
  (find-file driver-file)
  (goto-char (point-max))
  (lsp)
  (driver-wait (lambda () (lsp-workspaces)) "a server")
  (driver-wait (lambda () (eq 'initialized (lsp--workspace-status (car (lsp-workspaces))))) "its start")
  (execute-kbd-macro "s")
  (if (not ghost)
      (progn
        (company-mode)
        (driver-wait (lambda () (or company-candidates (company-manual-begin))) "the menu")
        (company-complete-selection))
    (lsp-inline-completion-display)
    (driver-wait #'lsp-inline-completion--active-p "ghost text")
    (lsp-inline-completion-accept))
  (driver-wait (lambda () (save-excursion (goto-char (point-min)) (search-forward "suggested" nil t))) "the text")
  (sit-for 0.5))

(defun driver-run ()
  "Play, and write what was seen."
  (let* ((ghost (fboundp 'lsp-inline-completion-display))
         (problem (condition-case error (progn (driver-play ghost) "") (error (error-message-string error)))))
    (driver-write (list :version (emacs-version) :ghost (if ghost t :json-false) :problem problem
                        :text (with-current-buffer (find-buffer-visiting driver-file) (buffer-string))
                        :warnings (if (get-buffer "*Warnings*") (with-current-buffer "*Warnings*" (buffer-string)) "")
                        :messages (with-current-buffer "*Messages*" (buffer-string))))
    (kill-emacs)))

(lsp-register-client
 (make-lsp-client :new-connection (lsp-stdio-connection '("fastcoder-lsp" "serve"))
                  :activation-fn (lsp-activate-on "python")
                  :initialization-options '(:popup (:enabled t :budget_ms 20000) :budget (:invoked_ms 30000))
                  :server-id 'fastcoder))
(run-with-idle-timer 0.1 nil #'driver-run)
